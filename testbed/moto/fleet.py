"""A group of machines in moto, for a roll of all of them.

fleet.py ENDPOINT make COUNT   makes a launch template and a group of COUNT machines over three zones
fleet.py ENDPOINT follow       prints a line of JSON for each machine that runs, as it appears, for ever
fleet.py ENDPOINT inventory    prints the group, all machines and their tags as one line of JSON
"""

import json
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

endpoint, action = sys.argv[1:3]
place = dict(
    endpoint_url=endpoint,
    region_name="eu-central-1",
    aws_access_key_id="fleet",
    aws_secret_access_key="fleet",
)
ec2 = boto3.client("ec2", **place)
autoscaling = boto3.client("autoscaling", **place)


def listed():
    pages = ec2.get_paginator("describe_instances").paginate()
    return [one for page in pages for held in page["Reservations"] for one in held["Instances"]]


def machines(tries=5):
    # moto walks its tables while its other threads change them, and answers 500 now and then, as a page.
    try:
        found = listed()
    except (BotoCoreError, ClientError, ResponseParserError):
        if tries == 1:
            raise
        time.sleep(0.2)
        return machines(tries - 1)
    return [
        {
            "id": one["InstanceId"],
            "zone": one["Placement"]["AvailabilityZone"],
            "state": one["State"]["Name"],
            "image": one["ImageId"],
            "tags": {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])},
        }
        for one in found
    ]


def make(count):
    subnets = ec2.describe_subnets()["Subnets"][:3]
    template = ec2.create_launch_template(
        LaunchTemplateName="workers",
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m5.4xlarge"},
    )["LaunchTemplate"]["LaunchTemplateId"]
    tag = {
        "Key": "kubernetes.io/cluster/test",
        "Value": "owned",
        "PropagateAtLaunch": False,
        "ResourceId": "workers",
        "ResourceType": "auto-scaling-group",
    }
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="workers",
        MinSize=0,
        MaxSize=count * 2,
        DesiredCapacity=0,
        VPCZoneIdentifier=",".join(subnet["SubnetId"] for subnet in subnets),
        LaunchTemplate={"LaunchTemplateId": template, "Version": "$Latest"},
        Tags=[tag],
    )
    # A group of moto launches all its machines in its first zone, so they are launched one zone at a time and
    # attached, which is allowed for 20 at once.
    for place, subnet in enumerate(subnets):
        share = len(range(place, count, len(subnets)))
        launched = ec2.run_instances(
            LaunchTemplate={"LaunchTemplateId": template, "Version": "$Latest"},
            MinCount=share,
            MaxCount=share,
            SubnetId=subnet["SubnetId"],
        )
        ids = [one["InstanceId"] for one in launched["Instances"]]
        for start in range(0, share, 20):
            autoscaling.attach_instances(AutoScalingGroupName="workers", InstanceIds=ids[start : start + 20])
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="workers", MinSize=count // 2)


def follow():
    seen = set()
    while True:
        for machine in machines():
            if machine["state"] == "running" and machine["id"] not in seen:
                seen.add(machine["id"])
                print(json.dumps(machine), flush=True)
        time.sleep(0.5)


def inventory():
    group = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["workers"])["AutoScalingGroups"][0]
    summary = {
        "desired": group["DesiredCapacity"],
        "max": group["MaxSize"],
        "members": sorted(one["InstanceId"] for one in group["Instances"]),
        "suspended": sorted(one["ProcessName"] for one in group.get("SuspendedProcesses", [])),
        "tags": sorted(tag["Key"] for tag in group["Tags"]),
    }
    print(json.dumps({"group": summary, "machines": machines()}))


if action == "make":
    make(int(sys.argv[3]))
elif action == "follow":
    follow()
else:
    inventory()
