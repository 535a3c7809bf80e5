"""Sets the scene of one check: empties moto, then makes a launch template and a group with three machines.

Called by the tests of the AWS provider as: stage.py ENDPOINT plain|mixed
"""

import sys
import urllib.request

import boto3

endpoint, kind = sys.argv[1:3]
urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST"))

place = dict(
    endpoint_url=endpoint,
    region_name="eu-central-1",
    aws_access_key_id="stage",
    aws_secret_access_key="stage",
)
ec2 = boto3.client("ec2", **place)
autoscaling = boto3.client("autoscaling", **place)

subnets = ec2.describe_subnets()["Subnets"][:3]
template = ec2.create_launch_template(
    LaunchTemplateName="workers",
    LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m5.xlarge"},
)["LaunchTemplate"]["LaunchTemplateId"]
source = {"LaunchTemplateId": template, "Version": "$Latest"}
if kind == "plain":
    how = {"LaunchTemplate": source}
else:
    overrides = [{"InstanceType": "m5.xlarge"}, {"InstanceType": "m6i.xlarge"}]
    how = {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {"LaunchTemplateSpecification": source, "Overrides": overrides}
        }
    }
autoscaling.create_auto_scaling_group(
    AutoScalingGroupName="workers",
    MinSize=0,
    MaxSize=8,
    DesiredCapacity=3,
    VPCZoneIdentifier=",".join(subnet["SubnetId"] for subnet in subnets),
    Tags=[
        {
            "Key": "kubernetes.io/cluster/test",
            "Value": "owned",
            "PropagateAtLaunch": False,
            "ResourceId": "workers",
            "ResourceType": "auto-scaling-group",
        }
    ],
    **how,
)
group = autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"][0]
print(group["Instances"][0]["InstanceId"])
