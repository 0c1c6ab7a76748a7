"""Fails unless at least so many old versions of files and manifests are there: ENDPOINT ACCESS SECRET COUNT."""

import sys

import boto3

endpoint, access, secret, count = sys.argv[1:]
s3 = boto3.client(
    "s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret, region_name="us-east-1"
)
pages = s3.get_paginator("list_object_versions").paginate(Bucket="history", Prefix="reports/s/")
found = [version for page in pages for version in page.get("Versions", [])]
newest = [version for version in found if version["IsLatest"]]
assert len(found) - len(newest) >= int(count), (len(found), len(newest), count)
