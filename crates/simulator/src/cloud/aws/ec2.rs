//! EC2: instances and launch templates.
//!
//! Owns the actions' names, parameters and answers. Must not change the model but through its own
//! functions.

use jiff::Timestamp;
use shipshape_engine::machine::{GroupId, ImageId, Machine, MachineId, MachineState, Token};

use super::form::Form;
use super::xml::{element, list, text};
use super::{Answer, Fault, Services};
use crate::cloud::model::{GroupRecord, Loose, TemplateVersion};
use crate::cloud::provider::Call;
use crate::cloud::{CloudHandle, State};

/// What an instance's template is called: the group's name behind this.
pub(super) const TEMPLATE: &str = "lt-";
/// What a zone's subnet is called: the zone's name behind this.
pub(super) const SUBNET: &str = "subnet-";

pub(super) fn answer(cloud: &CloudHandle, services: Services, action: &str, form: &Form) -> Answer {
    match action {
        "DescribeInstances" => cloud.read(Call::named("DescribeInstances"), |state, at, now| {
            describe(state, form, services.page, (at, now))
        }),
        "DescribeSubnets" => {
            cloud.read(Call::named("DescribeSubnets"), |_, _, _| Ok(subnets(form)))
        }
        "DescribeLaunchTemplateVersions" => {
            let call = Call::named("DescribeLaunchTemplateVersions");
            cloud.read(call, |state, _, _| describe_version(state, form))
        }
        "CreateLaunchTemplateVersion" => {
            let call = Call::named("CreateLaunchTemplateVersion");
            cloud.write(call, |state, _| create_version(state, form), |_| None)
        }
        "ModifyLaunchTemplate" => {
            let call = Call::named("ModifyLaunchTemplate");
            cloud.write(call, |state, _| set_default(state, form), |_| None)
        }
        "RunInstances" => run(cloud, form),
        "CreateTags" => {
            let id = MachineId(form.get("ResourceId.1").unwrap_or_default().to_owned());
            let call = Call {
                machine: Some(&id),
                ..Call::named("CreateTags")
            };
            let change = |state: &mut State, now| {
                let tags = form.tags("Tag");
                state
                    .model
                    .update(&id, now, |machine| machine.tags.extend(tags))?;
                Ok(done())
            };
            cloud.write(call, change, |_| None)
        }
        "TerminateInstances" => {
            let id = MachineId(form.get("InstanceId.1").unwrap_or_default().to_owned());
            let call = Call {
                machine: Some(&id),
                ..Call::named("TerminateInstances")
            };
            cloud.write(call, |state, now| terminate(state, &id, now), |_| None)
        }
        other => Err(Fault::said(
            "InvalidAction",
            format!("The action {other} is not valid for this web service."),
        )),
    }
}

fn done() -> String {
    text("return", "true")
}

fn describe(state: &State, form: &Form, page: usize, (at, now): (Timestamp, Timestamp)) -> Answer {
    let filters = form.entries("Filter", "Name").into_iter();
    let filters: Vec<(String, Vec<String>)> = filters
        .map(|prefix| {
            let name = form.get(&format!("{prefix}Name")).unwrap_or_default();
            (name.to_owned(), form.list(&format!("{prefix}Value")))
        })
        .collect();
    let listed = state.model.machines.values();
    let listed =
        listed.filter(|record| record.is_listed_at(at) && !state.is_forgotten(record, now));
    let mut passing = Vec::new();
    for machine in listed.map(|record| record.seen_at(at)) {
        if passes(state, &machine, &filters)? {
            passing.push(machine);
        }
    }
    let from: usize = form
        .get("NextToken")
        .and_then(|token| token.parse().ok())
        .unwrap_or(0);
    let shown = passing.iter().skip(from).take(page);
    let items = shown.map(|machine| {
        let instance = list("instancesSet", "item", [instance(machine)]);
        format!("{}{instance}", text("reservationId", "r-0"))
    });
    let set = list("reservationSet", "item", items);
    if from + page < passing.len() {
        return Ok(format!(
            "{set}{}",
            text("nextToken", &(from + page).to_string())
        ));
    }
    Ok(set)
}

fn passes(
    state: &State,
    machine: &Machine,
    filters: &[(String, Vec<String>)],
) -> Result<bool, Fault> {
    for (name, values) in filters {
        let token = state.model.client_tokens.iter();
        let mut token = token.filter(|(_, (_, id))| *id == machine.id);
        let value = match name.as_str() {
            "instance-id" => Some(machine.id.as_str()),
            "instance-state-name" => Some(state_name(machine.state)),
            "client-token" => token.next().map(|(token, _)| token.as_str()),
            other => match other.strip_prefix("tag:") {
                Some(key) => machine.tags.get(key).map(String::as_str),
                None => {
                    return Err(Fault::said(
                        "InvalidParameterValue",
                        format!("The filter '{other}' is invalid"),
                    ));
                }
            },
        };
        if !value.is_some_and(|value| values.iter().any(|it| it == value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn state_name(state: MachineState) -> &'static str {
    match state {
        MachineState::Unknown | MachineState::Creating => "pending",
        MachineState::Ready => "running",
        MachineState::Stopped => "stopped",
        MachineState::Terminating => "shutting-down",
        MachineState::Terminated | MachineState::Failed => "terminated",
    }
}

fn instance(machine: &Machine) -> String {
    let tags = machine.tags.iter();
    let tags = tags.map(|(key, value)| format!("{}{}", text("key", key), text("value", value)));
    [
        text("instanceId", machine.id.as_str()),
        text("imageId", machine.image.as_str()),
        element("instanceState", &text("name", state_name(machine.state))),
        text("instanceType", "m5.xlarge"),
        text("subnetId", &format!("{SUBNET}{}", machine.zone)),
        element("placement", &text("availabilityZone", &machine.zone)),
        list("tagSet", "item", tags),
    ]
    .concat()
}

fn subnets(form: &Form) -> String {
    let asked = form.list("SubnetId");
    let known = asked
        .iter()
        .filter_map(|id| id.strip_prefix(SUBNET).map(|zone| (id, zone)));
    let items = known
        .map(|(id, zone)| format!("{}{}", text("subnetId", id), text("availabilityZone", zone)));
    list("subnetSet", "item", items)
}

/// The group whose template is meant.
fn template_group(form: &Form, prefix: &str) -> Result<GroupId, Fault> {
    let id = form.get(&format!("{prefix}LaunchTemplateId"));
    let name = id
        .and_then(|id| id.strip_prefix(TEMPLATE))
        .or_else(|| form.get(&format!("{prefix}LaunchTemplateName")));
    name.map(|name| GroupId(name.to_owned())).ok_or_else(|| {
        Fault::said(
            "InvalidLaunchTemplateId.NotFound",
            "The specified launch template does not exist.",
        )
    })
}

fn record_of<'a>(state: &'a State, group: &GroupId) -> Result<&'a GroupRecord, Fault> {
    state.model.groups.get(group).ok_or_else(|| {
        Fault::said(
            "InvalidLaunchTemplateId.NotFound",
            format!("The launch template of {group} does not exist."),
        )
    })
}

pub(super) fn version_of(text: &str) -> Result<TemplateVersion, Fault> {
    match text {
        "$Latest" => Ok(TemplateVersion::Latest),
        "$Default" | "" => Ok(TemplateVersion::Default),
        number => number.parse().map(TemplateVersion::Number).map_err(|_| {
            Fault::said(
                "InvalidLaunchTemplateId.VersionNotFound",
                format!("There is no version {number}."),
            )
        }),
    }
}

/// The number and the image of a version.
fn image_of(group: &GroupRecord, version: &str) -> Result<(usize, ImageId), Fault> {
    let number = group.number_of(version_of(version)?);
    let image = group.image_of(number).ok_or_else(|| {
        Fault::said(
            "InvalidLaunchTemplateId.VersionNotFound",
            format!("There is no version {number}."),
        )
    })?;
    Ok((number, image))
}

fn version_xml(group: &GroupId, number: usize, image: &ImageId) -> String {
    [
        text("launchTemplateId", &format!("{TEMPLATE}{group}")),
        text("versionNumber", &number.to_string()),
        element("launchTemplateData", &text("imageId", image.as_str())),
    ]
    .concat()
}

fn describe_version(state: &State, form: &Form) -> Answer {
    let group = template_group(form, "")?;
    let record = record_of(state, &group)?;
    let asked = form.list("LaunchTemplateVersion");
    let versions = asked.iter().map(|version| {
        let (number, image) = image_of(record, version)?;
        Ok(version_xml(&group, number, &image))
    });
    let versions = versions.collect::<Result<Vec<_>, Fault>>()?;
    Ok(list("launchTemplateVersionSet", "item", versions))
}

fn create_version(state: &mut State, form: &Form) -> Answer {
    let group = template_group(form, "")?;
    let image = form
        .get("LaunchTemplateData.ImageId")
        .ok_or_else(|| Fault::said("MissingParameter", "LaunchTemplateData.ImageId"))?;
    let image = ImageId(image.to_owned());
    record_of(state, &group)?;
    let token = form.get("ClientToken").unwrap_or_default().to_owned();
    let known = state.model.version_tokens.get(&token).copied();
    let record = state.model.groups.get_mut(&group);
    let number = record.map_or(0, |record| {
        known.unwrap_or_else(|| {
            record.templates.push(image.clone());
            record.templates.len()
        })
    });
    if !token.is_empty() {
        state.model.version_tokens.insert(token, number);
    }
    let version = version_xml(&group, number, &image);
    Ok(element("launchTemplateVersion", &version))
}

fn set_default(state: &mut State, form: &Form) -> Answer {
    let group = template_group(form, "")?;
    let version = form.get("SetDefaultVersion").unwrap_or_default();
    let (number, _) = image_of(record_of(state, &group)?, version)?;
    if let Some(record) = state.model.groups.get_mut(&group) {
        record.default_version = number;
    }
    Ok(done())
}

fn run(cloud: &CloudHandle, form: &Form) -> Answer {
    let token = form.get("ClientToken").map(|token| Token(token.to_owned()));
    let call = Call {
        token: token.as_ref(),
        ..Call::named("RunInstances")
    };
    let change = |state: &mut State, now| -> Result<_, Fault> {
        let id = run_once(state, form, now)?;
        let record = state.model.machines.get(&id);
        Ok((id, record.map(|it| it.machine.clone())))
    };
    let (_, machine) = cloud.write(call, change, |(id, _)| Some(id.clone()))?;
    let items = machine.iter().map(instance);
    Ok(list("instancesSet", "item", items))
}

/// One token, one machine: the same words lead to the same one.
fn run_once(state: &mut State, form: &Form, now: Timestamp) -> Result<MachineId, Fault> {
    let token = form.get("ClientToken").unwrap_or_default().to_owned();
    if let Some(made) = earlier(state, &token, form)? {
        return Ok(made);
    }
    let home = template_group(form, "LaunchTemplate.")?;
    let version = form.get("LaunchTemplate.Version").unwrap_or_default();
    let (_, image) = image_of(record_of(state, &home)?, version)?;
    let zone = form
        .get("SubnetId")
        .or_else(|| form.get("NetworkInterface.1.SubnetId"))
        .and_then(|subnet| subnet.strip_prefix(SUBNET))
        .or_else(|| form.get("Placement.AvailabilityZone"))
        .ok_or_else(|| Fault::said("MissingParameter", "no subnet and no zone"))?;
    let loose = Loose {
        home: &home,
        image,
        zone,
        tags: form.tags("TagSpecification.1.Tag"),
    };
    let id = state.model.run_loose(loose, now)?;
    if !token.is_empty() {
        state
            .model
            .client_tokens
            .insert(token, (form.words(), id.clone()));
    }
    Ok(id)
}

/// The machine that a token has made, unless it was asked for in other words.
pub(super) fn earlier(state: &State, token: &str, form: &Form) -> Result<Option<MachineId>, Fault> {
    match state.model.client_tokens.get(token) {
        Some((words, id)) if *words == form.words() => Ok(Some(id.clone())),
        Some(_) => Err(Fault::said(
            "IdempotentParameterMismatch",
            "The client token was used before with other parameters.",
        )),
        None => Ok(None),
    }
}

fn terminate(state: &mut State, id: &MachineId, now: Timestamp) -> Answer {
    if !state.model.machines.contains_key(id) {
        return Err(Fault::said(
            "InvalidInstanceID.NotFound",
            format!("The instance ID '{id}' does not exist"),
        ));
    }
    // The group's desired size stays: it would launch another one.
    state.model.end(id, now);
    let item = text("instanceId", id.as_str());
    Ok(list("instancesSet", "item", [item]))
}
