//! Auto Scaling groups, through the official client: one paced function for each call.
//!
//! Owns the translation of the SDK's types. Must not decide: `hold` and `launch` do.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_autoscaling::Client;
use aws_sdk_autoscaling::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_autoscaling::types::{
    AutoScalingGroup, AutoScalingInstanceDetails, Filter, InstanceCollection,
    LaunchTemplateSpecification, RetryStrategy, Tag,
};

use crate::ec2::chain;
use crate::failure::{Failure, Meaning};
use crate::pace::{Kind, Pace};

/// Most instances in one question.
const INSTANCES_AT_ONCE: usize = 50;

/// One group, as far as anybody asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupFacts {
    pub(crate) id: String,
    pub(crate) zones: Vec<String>,
    pub(crate) subnets: Vec<String>,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) desired: u32,
    /// The template and the version that the group asks for; `None` for a launch configuration.
    pub(crate) template: Option<(String, String)>,
    pub(crate) mixed: Option<Mixed>,
    pub(crate) suspended: BTreeSet<String>,
    pub(crate) tags: BTreeMap<String, String>,
}

/// What a mixed-instances policy says of the types to choose from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mixed {
    pub(crate) types: Vec<String>,
}

/// Whether an instance belongs to a group.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) group: String,
    pub(crate) lifecycle: String,
    pub(crate) protected: bool,
}

/// The calls.
pub(crate) struct Groups<'a> {
    pub(crate) client: &'a Client,
    pub(crate) pace: &'a Pace,
}

impl Groups<'_> {
    /// Groups of these names, or all that pass the filters.
    pub(crate) async fn describe(
        &self,
        names: &[String],
        filters: &[Filter],
    ) -> Result<Vec<GroupFacts>, Failure> {
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let call = || {
                let call = self.client.describe_auto_scaling_groups();
                let call = call.set_auto_scaling_group_names(some(names));
                let call = call.set_filters(some(filters)).set_next_token(next.clone());
                async { call.send().await.map_err(|error| failure(&error)) }
            };
            let name = "DescribeAutoScalingGroups";
            let page = self.pace.call(name, Kind::Read, call).await?;
            found.extend(page.auto_scaling_groups().iter().map(facts));
            next = page.next_token;
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// The groups of instances; one that belongs to none is not in the map.
    pub(crate) async fn memberships(
        &self,
        ids: &[String],
    ) -> Result<BTreeMap<String, Membership>, Failure> {
        let mut found = BTreeMap::new();
        for part in ids.chunks(INSTANCES_AT_ONCE) {
            let call = || {
                let call = self.client.describe_auto_scaling_instances();
                let call = call.set_instance_ids(Some(part.to_vec()));
                async { call.send().await.map_err(|error| failure(&error)) }
            };
            let name = "DescribeAutoScalingInstances";
            let page = self.pace.call(name, Kind::Read, call).await?;
            found.extend(page.auto_scaling_instances().iter().filter_map(membership));
        }
        Ok(found)
    }

    /// Asks the group itself for one machine in a zone; returns its id.
    pub(crate) async fn launch(
        &self,
        group: &str,
        zone: &str,
        token: &str,
    ) -> Result<String, Failure> {
        self.launch_some(1, (group, zone, token), Kind::Repeatable)
            .await
    }

    /// Asks the group for no machine at all, which a service that has the call refuses.
    pub(crate) async fn launch_none(&self, group: &str, zone: &str) -> Result<String, Failure> {
        self.launch_some(0, (group, zone, "probe"), Kind::Once)
            .await
    }

    async fn launch_some(
        &self,
        machines: i32,
        (group, zone, token): (&str, &str, &str),
        kind: Kind,
    ) -> Result<String, Failure> {
        let call = || {
            let call = self.client.launch_instances().requested_capacity(machines);
            let call = call.auto_scaling_group_name(group).client_token(token);
            let call = call
                .availability_zones(zone)
                .retry_strategy(RetryStrategy::None);
            async { call.send().await.map_err(|error| failure(&error)) }
        };
        let answer = self.pace.call("LaunchInstances", kind, call).await?;
        let ids = answer.instances().iter();
        let id = ids.flat_map(InstanceCollection::instance_ids).next();
        if let Some(id) = id {
            return Ok(id.clone());
        }
        let error = answer.errors().first();
        Err(error.map_or_else(
            || Failure::lost("neither an instance nor an error in the answer"),
            |error| {
                Failure::answered(
                    error.error_code().unwrap_or("LaunchError"),
                    error.error_message().unwrap_or_default(),
                )
            },
        ))
    }

    /// Takes a running instance into the group; its desired size grows by one.
    pub(crate) async fn attach(&self, group: &str, id: &str) -> Result<(), Failure> {
        let call = || {
            let call = self.client.attach_instances();
            let call = call.auto_scaling_group_name(group).instance_ids(id);
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        self.pace.call("AttachInstances", Kind::Once, call).await
    }

    /// Ends an instance and takes it out of the group's desired size.
    pub(crate) async fn terminate(&self, id: &str) -> Result<(), Failure> {
        let call = || {
            let call = self.client.terminate_instance_in_auto_scaling_group();
            let call = call.instance_id(id).should_decrement_desired_capacity(true);
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "TerminateInstanceInAutoScalingGroup";
        self.pace.call(name, Kind::Once, call).await
    }

    /// Sets or lifts protection against scale-in.
    pub(crate) async fn protect(
        &self,
        group: &str,
        id: &str,
        protected: bool,
    ) -> Result<(), Failure> {
        let call = || {
            let call = self.client.set_instance_protection();
            let call = call.auto_scaling_group_name(group).instance_ids(id);
            let call = call.protected_from_scale_in(protected);
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "SetInstanceProtection";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Sets the most machines that the group may have.
    pub(crate) async fn set_max(&self, group: &str, max: u32) -> Result<(), Failure> {
        let call = || {
            let call = self.client.update_auto_scaling_group();
            let call = call
                .auto_scaling_group_name(group)
                .max_size(i32::try_from(max).unwrap_or(i32::MAX));
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "UpdateAutoScalingGroup";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Makes the group launch another version of its template.
    pub(crate) async fn set_version(
        &self,
        group: &GroupFacts,
        template: &str,
        version: &str,
    ) -> Result<(), Failure> {
        use aws_sdk_autoscaling::types::{LaunchTemplate, MixedInstancesPolicy};
        let mut spec = LaunchTemplateSpecification::builder().version(version);
        spec = if template.starts_with("lt-") {
            spec.launch_template_id(template)
        } else {
            spec.launch_template_name(template)
        };
        let spec = spec.build();
        let call = || {
            let call = self.client.update_auto_scaling_group();
            let call = call.auto_scaling_group_name(&group.id);
            // Parts of a policy that are not given stay as they are.
            let call = if group.mixed.is_some() {
                let template =
                    LaunchTemplate::builder().launch_template_specification(spec.clone());
                let policy = MixedInstancesPolicy::builder().launch_template(template.build());
                call.mixed_instances_policy(policy.build())
            } else {
                call.launch_template(spec.clone())
            };
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "UpdateAutoScalingGroup";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Suspends a process of the group.
    pub(crate) async fn suspend(&self, group: &str, process: &str) -> Result<(), Failure> {
        let call = || {
            let call = self.client.suspend_processes();
            let call = call
                .auto_scaling_group_name(group)
                .scaling_processes(process);
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "SuspendProcesses";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Resumes a process of the group.
    pub(crate) async fn resume(&self, group: &str, process: &str) -> Result<(), Failure> {
        let call = || {
            let call = self.client.resume_processes();
            let call = call
                .auto_scaling_group_name(group)
                .scaling_processes(process);
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "ResumeProcesses";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Writes a tag of the group itself; its machines do not get it.
    pub(crate) async fn set_tag(&self, group: &str, key: &str, value: &str) -> Result<(), Failure> {
        let tag = tag_of(group, key).value(value).build();
        let call = || {
            let call = self.client.create_or_update_tags().tags(tag.clone());
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        let name = "CreateOrUpdateTags";
        self.pace.call(name, Kind::Repeatable, call).await
    }

    /// Takes a tag off the group.
    pub(crate) async fn remove_tag(&self, group: &str, key: &str) -> Result<(), Failure> {
        let tag = tag_of(group, key).build();
        let call = || {
            let call = self.client.delete_tags().tags(tag.clone());
            async { call.send().await.map(drop).map_err(|error| failure(&error)) }
        };
        self.pace.call("DeleteTags", Kind::Repeatable, call).await
    }
}

fn tag_of(group: &str, key: &str) -> aws_sdk_autoscaling::types::builders::TagBuilder {
    Tag::builder()
        .resource_type("auto-scaling-group")
        .resource_id(group)
        .propagate_at_launch(false)
        .key(key)
}

/// A filter of groups.
pub(crate) fn filter(name: &str, value: &str) -> Filter {
    Filter::builder().name(name).values(value).build()
}

fn some<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

fn failure<E, R>(error: &SdkError<E, R>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let told = error.as_service_error().and_then(|error| {
        let code = error.code()?;
        Some(Failure::answered(code, error.message().unwrap_or_default()))
    });
    // Credentials that cannot be had are not a lost answer: a person must act.
    let text = chain(error);
    match told {
        Some(told) => told,
        None if text.contains("credentials") => Failure::answered("AuthFailure", text),
        None => Failure::lost(text),
    }
}

fn size(value: Option<i32>) -> u32 {
    value
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or_default()
}

fn facts(group: &AutoScalingGroup) -> GroupFacts {
    let policy = group.mixed_instances_policy();
    let policy_template = policy.and_then(|policy| policy.launch_template());
    let template = group
        .launch_template()
        .or_else(|| policy_template.and_then(|template| template.launch_template_specification()));
    let tags = group.tags().iter().filter_map(|tag| {
        let key = tag.key()?.to_owned();
        Some((key, tag.value().unwrap_or_default().to_owned()))
    });
    let subnets = group.vpc_zone_identifier().unwrap_or_default().split(',');
    let suspended = group.suspended_processes().iter();
    GroupFacts {
        id: group
            .auto_scaling_group_name()
            .unwrap_or_default()
            .to_owned(),
        zones: group.availability_zones().to_vec(),
        subnets: subnets
            .map(str::trim)
            .filter(|subnet| !subnet.is_empty())
            .map(str::to_owned)
            .collect(),
        min: size(group.min_size()),
        max: size(group.max_size()),
        desired: size(group.desired_capacity()),
        template: template.and_then(template_ref),
        mixed: policy_template.map(|template| Mixed {
            types: template
                .overrides()
                .iter()
                .filter_map(|it| it.instance_type().map(str::to_owned))
                .collect(),
        }),
        suspended: suspended
            .filter_map(|process| process.process_name().map(str::to_owned))
            .collect(),
        tags: tags.collect(),
    }
}

fn template_ref(spec: &LaunchTemplateSpecification) -> Option<(String, String)> {
    let template = spec
        .launch_template_id()
        .or_else(|| spec.launch_template_name())?;
    // Without a version the group launches the default one.
    let version = spec.version().filter(|version| !version.is_empty());
    Some((
        template.to_owned(),
        version.unwrap_or("$Default").to_owned(),
    ))
}

fn membership(details: &AutoScalingInstanceDetails) -> Option<(String, Membership)> {
    let membership = Membership {
        group: details.auto_scaling_group_name()?.to_owned(),
        lifecycle: details.lifecycle_state().unwrap_or_default().to_owned(),
        protected: details.protected_from_scale_in().unwrap_or_default(),
    };
    Some((details.instance_id()?.to_owned(), membership))
}

/// Whether a refusal means that the service cannot do this at all, as opposed to not now.
pub(crate) fn is_not_served(failure: &Failure) -> bool {
    failure.meaning() == Meaning::NotServed
}
