"""Makes the bucket `history` as its owner would: ENDPOINT ACCESS SECRET KIND [POLICY]."""

import sys

import boto3

endpoint, access, secret, kind, *policy = sys.argv[1:]
s3 = boto3.client(
    "s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret, region_name="us-east-1"
)
s3.create_bucket(Bucket="history", ObjectLockEnabledForBucket=kind in ("GOVERNANCE", "COMPLIANCE"))
if kind in ("Enabled", "Suspended"):
    s3.put_bucket_versioning(Bucket="history", VersioningConfiguration={"Status": kind})
if kind in ("GOVERNANCE", "COMPLIANCE"):
    retention = {"Mode": kind, "Days": 30}
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}
    s3.put_object_lock_configuration(Bucket="history", ObjectLockConfiguration=lock)
if policy:
    s3.put_bucket_policy(Bucket="history", Policy=policy[0])
