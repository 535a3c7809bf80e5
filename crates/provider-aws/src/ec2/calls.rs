//! The actions of EC2 that are used, as typed functions.
//!
//! Owns the names of parameters and elements. Must not decide.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::xml::{child, items, text};
use super::{Ec2, Form};
use crate::failure::Failure;

/// One instance, as far as anybody asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) image: String,
    /// `pending`, `running`, …
    pub(crate) state: String,
    pub(crate) subnet: Option<String>,
    pub(crate) instance_type: Option<String>,
    /// `spot`, when it is one.
    pub(crate) lifecycle: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
}

/// One version of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemplateVersion {
    pub(crate) number: String,
    pub(crate) image: Option<String>,
    /// Network interfaces that the template describes: a subnet must then be given inside them.
    pub(crate) interfaces: Vec<Interface>,
}

/// One network interface of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: String,
    pub(crate) groups: Vec<String>,
    pub(crate) public_address: Option<String>,
}

/// What `RunInstances` is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    pub(crate) token: String,
    pub(crate) template: String,
    pub(crate) version: String,
    pub(crate) zone: String,
    pub(crate) subnet: Option<String>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) instance_type: Option<String>,
    pub(crate) spot: bool,
    pub(crate) tags: BTreeMap<String, String>,
}

/// A filter: a name and the values that pass.
pub(crate) type Filter = (String, Vec<String>);

impl Ec2 {
    /// All instances that pass every filter, over as many pages as there are.
    pub(crate) async fn describe_instances(
        &self,
        filters: &[Filter],
    ) -> Result<Vec<Instance>, Failure> {
        let mut found = Vec::new();
        let mut form = filter_form(filters);
        loop {
            let answer = self.send("DescribeInstances", &form).await?;
            let document = Document::parse(&answer).map_err(Failure::lost)?;
            let root = document.root_element();
            for reservation in items(root, "reservationSet") {
                for item in items(reservation, "instancesSet") {
                    found.push(instance(item)?);
                }
            }
            let Some(next) = text(root, &["nextToken"]) else {
                return Ok(found);
            };
            form = filter_form(filters);
            form.push(pair("NextToken", next));
        }
    }

    /// One version of a launch template, by number, `$Latest` or `$Default`.
    pub(crate) async fn template_version(
        &self,
        template: &str,
        version: &str,
    ) -> Result<TemplateVersion, Failure> {
        let form = vec![
            template_pair("", template),
            pair("LaunchTemplateVersion.1", version),
            // An image may be named by a parameter that holds its id.
            pair("ResolveAlias", "true"),
        ];
        let answer = self.send("DescribeLaunchTemplateVersions", &form).await?;
        let document = Document::parse(&answer).map_err(Failure::lost)?;
        let item = items(document.root_element(), "launchTemplateVersionSet").next();
        let item = item.ok_or_else(|| {
            Failure::answered(
                "InvalidLaunchTemplateId.VersionNotFound",
                format!("launch template {template} has no version {version}"),
            )
        })?;
        template_of(item)
    }

    /// Adds a version that differs from `source` in its image; returns its number.
    pub(crate) async fn create_template_version(
        &self,
        template: &str,
        source: &str,
        image: &str,
        token: &str,
    ) -> Result<String, Failure> {
        let form = vec![
            template_pair("", template),
            pair("SourceVersion", source),
            pair("LaunchTemplateData.ImageId", image),
            pair("ClientToken", token),
        ];
        let answer = self.send("CreateLaunchTemplateVersion", &form).await?;
        let document = Document::parse(&answer).map_err(Failure::lost)?;
        let version = child(document.root_element(), "launchTemplateVersion");
        let version = version.ok_or_else(|| Failure::lost("no version in the answer"))?;
        Ok(template_of(version)?.number)
    }

    /// Makes a version the default one.
    pub(crate) async fn set_default_version(
        &self,
        template: &str,
        version: &str,
    ) -> Result<(), Failure> {
        let form = vec![
            template_pair("", template),
            pair("SetDefaultVersion", version),
        ];
        self.send("ModifyLaunchTemplate", &form).await.map(drop)
    }

    /// Zones of subnets.
    pub(crate) async fn subnet_zones(
        &self,
        subnets: &[String],
    ) -> Result<BTreeMap<String, String>, Failure> {
        let form = numbered("SubnetId", subnets);
        let answer = self.send("DescribeSubnets", &form).await?;
        let document = Document::parse(&answer).map_err(Failure::lost)?;
        let found = items(document.root_element(), "subnetSet").map(|item| {
            let id = required(item, "subnetId")?;
            Ok((id, required(item, "availabilityZone")?))
        });
        found.collect()
    }

    /// Launches one instance, with its tags in the same call.
    pub(crate) async fn run_instance(&self, launch: &Launch) -> Result<Instance, Failure> {
        let answer = self.send("RunInstances", &launch_form(launch)).await?;
        let document = Document::parse(&answer).map_err(Failure::lost)?;
        let first = items(document.root_element(), "instancesSet").next();
        instance(first.ok_or_else(|| Failure::lost("no instance in the answer"))?)
    }

    /// Adds or overwrites tags of an instance.
    pub(crate) async fn create_tags(
        &self,
        id: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let mut form = vec![pair("ResourceId.1", id)];
        form.extend(tag_form("Tag", tags));
        self.send("CreateTags", &form).await.map(drop)
    }

    /// Ends an instance that belongs to no group.
    pub(crate) async fn terminate_instance(&self, id: &str) -> Result<(), Failure> {
        self.send("TerminateInstances", &vec![pair("InstanceId.1", id)])
            .await
            .map(drop)
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A template by its id, or by its name where the group knows no id.
fn template_pair(prefix: &str, template: &str) -> (String, String) {
    let key = if template.starts_with("lt-") {
        "LaunchTemplateId"
    } else {
        "LaunchTemplateName"
    };
    (format!("{prefix}{key}"), template.to_owned())
}

fn numbered(name: &str, values: &[String]) -> Form {
    let numbered = values.iter().enumerate();
    numbered
        .map(|(index, value)| (format!("{name}.{}", index + 1), value.clone()))
        .collect()
}

fn filter_form(filters: &[Filter]) -> Form {
    let mut form = Form::new();
    for (index, (name, values)) in filters.iter().enumerate() {
        let prefix = format!("Filter.{}", index + 1);
        form.push((format!("{prefix}.Name"), name.clone()));
        form.extend(numbered(&format!("{prefix}.Value"), values));
    }
    form
}

fn tag_form(prefix: &str, tags: &BTreeMap<String, String>) -> Form {
    let numbered = tags.iter().enumerate();
    let pairs = numbered.flat_map(|(index, (key, value))| {
        let prefix = format!("{prefix}.{}", index + 1);
        [
            (format!("{prefix}.Key"), key.clone()),
            (format!("{prefix}.Value"), value.clone()),
        ]
    });
    pairs.collect()
}

fn launch_form(launch: &Launch) -> Form {
    let mut form = vec![
        pair("MinCount", "1"),
        pair("MaxCount", "1"),
        pair("ClientToken", &launch.token),
        template_pair("LaunchTemplate.", &launch.template),
        pair("LaunchTemplate.Version", &launch.version),
        pair("TagSpecification.1.ResourceType", "instance"),
    ];
    form.extend(tag_form("TagSpecification.1.Tag", &launch.tags));
    form.extend(place_form(launch));
    if let Some(instance_type) = &launch.instance_type {
        form.push(pair("InstanceType", instance_type));
    }
    if launch.spot {
        form.push(pair("InstanceMarketOptions.MarketType", "spot"));
    }
    form
}

/// Where the instance goes. EC2 refuses a subnet beside network interfaces of the template, so
/// these are given again with the subnet inside.
fn place_form(launch: &Launch) -> Form {
    let Some(subnet) = &launch.subnet else {
        return vec![pair("Placement.AvailabilityZone", &launch.zone)];
    };
    if launch.interfaces.is_empty() {
        return vec![pair("SubnetId", subnet)];
    }
    let mut form = Form::new();
    for (index, interface) in launch.interfaces.iter().enumerate() {
        let prefix = format!("NetworkInterface.{}", index + 1);
        form.push((format!("{prefix}.DeviceIndex"), interface.index.clone()));
        form.push((format!("{prefix}.SubnetId"), subnet.clone()));
        if let Some(public) = &interface.public_address {
            form.push((format!("{prefix}.AssociatePublicIpAddress"), public.clone()));
        }
        form.extend(numbered(
            &format!("{prefix}.SecurityGroupId"),
            &interface.groups,
        ));
    }
    form
}

fn required(item: Node<'_, '_>, name: &str) -> Result<String, Failure> {
    text(item, &[name])
        .map(str::to_owned)
        .ok_or_else(|| Failure::lost(format!("an answer without {name}")))
}

fn instance(item: Node<'_, '_>) -> Result<Instance, Failure> {
    let optional = |path: &[&str]| text(item, path).map(str::to_owned);
    let tags = items(item, "tagSet").filter_map(|tag| {
        let key = text(tag, &["key"])?;
        Some((
            key.to_owned(),
            text(tag, &["value"]).unwrap_or_default().to_owned(),
        ))
    });
    Ok(Instance {
        id: required(item, "instanceId")?,
        zone: optional(&["placement", "availabilityZone"]).unwrap_or_default(),
        image: optional(&["imageId"]).unwrap_or_default(),
        state: optional(&["instanceState", "name"]).unwrap_or_default(),
        subnet: optional(&["subnetId"]),
        instance_type: optional(&["instanceType"]),
        lifecycle: optional(&["instanceLifecycle"]),
        tags: tags.collect(),
    })
}

fn template_of(item: Node<'_, '_>) -> Result<TemplateVersion, Failure> {
    let data = child(item, "launchTemplateData");
    let interfaces = data
        .into_iter()
        .flat_map(|data| items(data, "networkInterfaceSet"));
    let interfaces = interfaces.map(|interface| Interface {
        index: text(interface, &["deviceIndex"]).unwrap_or("0").to_owned(),
        groups: items(interface, "groupSet")
            .filter_map(|group| text(group, &["groupId"]).or_else(|| group.text().map(str::trim)))
            .map(str::to_owned)
            .collect(),
        public_address: text(interface, &["associatePublicIpAddress"]).map(str::to_owned),
    });
    Ok(TemplateVersion {
        number: required(item, "versionNumber")?,
        image: data
            .and_then(|data| text(data, &["imageId"]))
            .map(str::to_owned),
        interfaces: interfaces.collect(),
    })
}
