//! Auto Scaling: groups and their members.
//!
//! Owns the actions' names, parameters and answers. Must not change the model but through its own
//! functions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_engine::machine::{GroupId, Machine, MachineId, MachineState, Token};

use super::ec2::{SUBNET, TEMPLATE, earlier, version_of};
use super::form::Form;
use super::xml::{element, list, text};
use super::{Answer, Fault, Services};
use crate::cloud::model::{GroupRecord, TemplateVersion};
use crate::cloud::provider::Call;
use crate::cloud::{CloudHandle, State};

const NAME: &str = "AutoScalingGroupName";

pub(super) fn answer(cloud: &CloudHandle, services: Services, action: &str, form: &Form) -> Answer {
    match action {
        "DescribeAutoScalingGroups" => {
            let call = Call::named("DescribeAutoScalingGroups");
            cloud.read(call, |state, at, _| Ok(describe_groups(state, form, at)))
        }
        "DescribeAutoScalingInstances" => {
            let call = Call::named("DescribeAutoScalingInstances");
            cloud.read(call, |state, at, _| Ok(describe_members(state, form, at)))
        }
        "LaunchInstances" if services.group_launch => launch(cloud, form),
        "AttachInstances" => on_member(cloud, "AttachInstances", form, |state, id, now| {
            let group = group_of(state, form)?;
            Ok(state.model.attach(id, &group, now)?)
        }),
        "SetInstanceProtection" => on_member(cloud, "SetInstanceProtection", form, protect(form)),
        "TerminateInstanceInAutoScalingGroup" => terminate(cloud, form),
        "UpdateAutoScalingGroup" => on_group(cloud, "UpdateAutoScalingGroup", form, |group| {
            update(group, form)
        }),
        "SuspendProcesses" => on_group(cloud, "SuspendProcesses", form, |group| {
            group.suspended.extend(form.list("ScalingProcesses.member"));
            Ok(())
        }),
        "ResumeProcesses" => on_group(cloud, "ResumeProcesses", form, |group| {
            for process in form.list("ScalingProcesses.member") {
                group.suspended.remove(&process);
            }
            Ok(())
        }),
        "CreateOrUpdateTags" => on_tags(cloud, "CreateOrUpdateTags", form),
        "DeleteTags" => on_tags(cloud, "DeleteTags", form),
        other => Err(Fault::said(
            "InvalidAction",
            format!("Could not find operation {other} for version 2011-01-01"),
        )),
    }
}

/// The group that is asked for, if there is one.
fn group_of(state: &State, form: &Form) -> Result<GroupId, Fault> {
    let id = GroupId(form.get(NAME).unwrap_or_default().to_owned());
    if state.model.groups.contains_key(&id) {
        return Ok(id);
    }
    Err(Fault::invalid(format!(
        "AutoScalingGroup name not found - AutoScalingGroup {id} not found"
    )))
}

fn on_group(
    cloud: &CloudHandle,
    name: &'static str,
    form: &Form,
    change: impl FnOnce(&mut GroupRecord) -> Result<(), Fault>,
) -> Answer {
    let step = |state: &mut State, _| {
        let id = group_of(state, form)?;
        state.model.groups.get_mut(&id).map_or(Ok(()), change)?;
        Ok(String::new())
    };
    cloud.write(Call::named(name), step, |_| None)
}

fn on_member(
    cloud: &CloudHandle,
    name: &'static str,
    form: &Form,
    change: impl FnOnce(&mut State, &MachineId, Timestamp) -> Result<(), Fault>,
) -> Answer {
    let id = form.get("InstanceIds.member.1").unwrap_or_default();
    let id = MachineId(id.to_owned());
    let call = Call {
        machine: Some(&id),
        ..Call::named(name)
    };
    let step = |state: &mut State, now| {
        change(state, &id, now)?;
        Ok(String::new())
    };
    cloud.write(call, step, |_| None)
}

fn protect(form: &Form) -> impl FnOnce(&mut State, &MachineId, Timestamp) -> Result<(), Fault> {
    let protected = form.get("ProtectedFromScaleIn") == Some("true");
    move |state, id, now| {
        let change = |machine: &mut Machine| machine.protected = protected;
        let changed = state.model.update(id, now, change);
        changed.map_err(|_| not_managed(id))
    }
}

fn not_managed(id: &MachineId) -> Fault {
    Fault::invalid(format!(
        "Instance Id not found - No managed instance found for instance ID: {id}"
    ))
}

fn on_tags(cloud: &CloudHandle, name: &'static str, form: &Form) -> Answer {
    let step = |state: &mut State, _| {
        for prefix in form.entries("Tags.member", "Key") {
            let field = |field: &str| form.get(&format!("{prefix}{field}")).unwrap_or_default();
            let id = GroupId(field("ResourceId").to_owned());
            let group = state.model.groups.get_mut(&id);
            let group = group.ok_or_else(|| Fault::invalid(format!("no group {id}")))?;
            if name == "DeleteTags" {
                group.tags.remove(field("Key"));
            } else {
                let value = field("Value").to_owned();
                group.tags.insert(field("Key").to_owned(), value);
            }
        }
        Ok(String::new())
    };
    cloud.write(Call::named(name), step, |_| None)
}

fn update(group: &mut GroupRecord, form: &Form) -> Result<(), Fault> {
    let number = |name| form.get(name).and_then(|text| text.parse::<u32>().ok());
    if let Some(max) = number("MaxSize") {
        if max < group.spec.min {
            return Err(Fault::invalid("Max bound must be at least the min bound"));
        }
        group.spec.max = max;
        group.desired = group.desired.min(max);
    }
    if let Some(version) = form.get("LaunchTemplate.Version") {
        group.version = version_of(version)?;
    }
    Ok(())
}

fn launch(cloud: &CloudHandle, form: &Form) -> Answer {
    let token = form.get("ClientToken").unwrap_or_default().to_owned();
    let zone = form.get("AvailabilityZones.member.1").unwrap_or_default();
    let logged = Token(token.clone());
    let call = Call {
        token: Some(&logged),
        ..Call::named("LaunchInstances")
    };
    let step = |state: &mut State, now| {
        if let Some(made) = earlier(state, &token, form)? {
            return Ok(made);
        }
        let group = group_of(state, form)?;
        if form.get("RequestedCapacity") != Some("1") {
            return Err(Fault::invalid("Only one machine at a time is served here"));
        }
        let made = state.model.launch_member(&group, zone, now)?;
        state
            .model
            .client_tokens
            .insert(token.clone(), (form.words(), made.clone()));
        Ok(made)
    };
    let inner = match cloud.write(call, step, |id: &MachineId| Some(id.clone())) {
        Ok(id) => {
            let ids = list("InstanceIds", "member", [id.0]);
            let part = format!("{}{ids}", text("AvailabilityZone", zone));
            list("Instances", "member", [part])
        }
        // A launch that was tried and failed is an answer, not an error.
        Err(Fault::Said { code, message }) if code == "InsufficientInstanceCapacity" => {
            let error = format!(
                "{}{}{}",
                text("AvailabilityZone", zone),
                text("ErrorCode", code),
                text("ErrorMessage", &message)
            );
            list("Errors", "member", [error])
        }
        Err(fault) => return Err(fault),
    };
    Ok(format!(
        "{}{inner}",
        text(NAME, form.get(NAME).unwrap_or_default())
    ))
}

fn terminate(cloud: &CloudHandle, form: &Form) -> Answer {
    let id = MachineId(form.get("InstanceId").unwrap_or_default().to_owned());
    let decrement = form.get("ShouldDecrementDesiredCapacity") == Some("true");
    let call = Call {
        machine: Some(&id),
        ..Call::named("TerminateInstanceInAutoScalingGroup")
    };
    let step = |state: &mut State, now| {
        let record = state.model.machines.get(&id);
        let record = record.filter(|it| it.is_live() && it.machine.group.is_some());
        record.ok_or_else(|| not_managed(&id))?;
        if decrement {
            state.model.delete(&id, now)?;
        } else {
            state.model.end(&id, now);
        }
        Ok(element("Activity", &text("StatusCode", "InProgress")))
    };
    cloud.write(call, step, |_| None)
}

fn lifecycle(state: MachineState) -> &'static str {
    match state {
        MachineState::Unknown | MachineState::Creating => "Pending",
        MachineState::Ready | MachineState::Stopped => "InService",
        MachineState::Terminating => "Terminating",
        MachineState::Terminated | MachineState::Failed => "Terminated",
    }
}

/// Members that a reader sees: an instance that has ended is none any more.
fn members(state: &State, at: Timestamp) -> impl Iterator<Item = Machine> {
    let listed = state.model.machines.values();
    let listed = listed.filter(move |record| record.is_listed_at(at));
    let views = listed.map(move |record| record.seen_at(at));
    views.filter(|it| it.group.is_some() && it.state != MachineState::Terminated)
}

fn member(machine: &Machine) -> String {
    let group = machine.group.as_ref().map(GroupId::as_str);
    [
        text("InstanceId", machine.id.as_str()),
        text(NAME, group.unwrap_or_default()),
        text("AvailabilityZone", &machine.zone),
        text("LifecycleState", lifecycle(machine.state)),
        text("HealthStatus", "HEALTHY"),
        text("ProtectedFromScaleIn", &machine.protected.to_string()),
    ]
    .concat()
}

fn describe_members(state: &State, form: &Form, at: Timestamp) -> String {
    let asked = form.list("InstanceIds.member");
    let shown = members(state, at).filter(|it| asked.is_empty() || asked.contains(&it.id.0));
    let shown: Vec<String> = shown.map(|it| member(&it)).collect();
    list("AutoScalingInstances", "member", shown)
}

fn describe_groups(state: &State, form: &Form, at: Timestamp) -> String {
    let asked = form.list("AutoScalingGroupNames.member");
    let keys: Vec<String> = form
        .entries("Filters.member", "Name")
        .iter()
        .filter(|prefix| form.get(&format!("{prefix}Name")) == Some("tag-key"))
        .flat_map(|prefix| form.list(&format!("{prefix}Values.member")))
        .collect();
    let mut by_group: BTreeMap<GroupId, Vec<Machine>> = BTreeMap::new();
    for machine in members(state, at) {
        if let Some(group) = machine.group.clone() {
            by_group.entry(group).or_default().push(machine);
        }
    }
    let groups = state.model.groups.iter();
    let shown = groups.filter(|(id, group)| {
        let is_named = asked.is_empty() || asked.contains(&id.0);
        is_named && (keys.is_empty() || keys.iter().any(|key| group.tags.contains_key(key)))
    });
    let shown = shown.map(|(id, group)| {
        let members = by_group.get(id).map(Vec::as_slice);
        group_xml(id, group, members.unwrap_or_default())
    });
    list("AutoScalingGroups", "member", shown.collect::<Vec<_>>())
}

fn group_xml(id: &GroupId, group: &GroupRecord, members: &[Machine]) -> String {
    let version = match group.version {
        TemplateVersion::Latest => "$Latest".to_owned(),
        TemplateVersion::Default => "$Default".to_owned(),
        TemplateVersion::Number(number) => number.to_string(),
    };
    let template = [
        text("LaunchTemplateId", &format!("{TEMPLATE}{id}")),
        text("LaunchTemplateName", id.as_str()),
        text("Version", &version),
    ]
    .concat();
    let zones = &group.spec.zones;
    let subnets: Vec<String> = zones.iter().map(|zone| format!("{SUBNET}{zone}")).collect();
    let tags = group.tags.iter().map(|(key, value)| {
        let whose = format!(
            "{}{}",
            text("ResourceId", id.as_str()),
            text("ResourceType", "auto-scaling-group")
        );
        format!("{whose}{}{}", text("Key", key), text("Value", value))
    });
    let suspended = group.suspended.iter();
    [
        text(NAME, id.as_str()),
        text("MinSize", &group.spec.min.to_string()),
        text("MaxSize", &group.spec.max.to_string()),
        text("DesiredCapacity", &group.desired.to_string()),
        text("DefaultCooldown", "300"),
        text("HealthCheckType", "EC2"),
        text("CreatedTime", "2026-01-01T00:00:00Z"),
        list("AvailabilityZones", "member", zones.iter().cloned()),
        text("VPCZoneIdentifier", &subnets.join(",")),
        element("LaunchTemplate", &template),
        list("Instances", "member", members.iter().map(member)),
        list("Tags", "member", tags),
        list(
            "SuspendedProcesses",
            "member",
            suspended.map(|process| text("ProcessName", process)),
        ),
    ]
    .concat()
}
