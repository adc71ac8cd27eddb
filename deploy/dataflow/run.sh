#!/usr/bin/env bash
# Not run where it was written, which has no Google Cloud: an audit on Dataflow, parsing on CPU machines and attention on GPUs.
# Set PROJECT, REGION, BUCKET, IMAGE (deploy/images/Dockerfile, GPU variant) and INPUT; needs pip install 'attribeam[gcs]'.
set -euo pipefail

: "${PROJECT:?}" "${REGION:?}" "${BUCKET:?}" "${IMAGE:?}" "${INPUT:?}"

exec attribeam audit --input "$INPUT" --output "gs://$BUCKET/audits/$(date +%F)" \
    --rows-per-chunk 5000 \
    --model-resource-hints "accelerator=type:nvidia-l4;count:1;install-nvidia-driver,min_ram=24GB" \
    --runner DataflowRunner --project "$PROJECT" --region "$REGION" \
    --temp_location "gs://$BUCKET/temp" --staging_location "gs://$BUCKET/staging" \
    --sdk_container_image "$IMAGE" --sdk_location container \
    --experiments use_runner_v2 --dataflow_service_options enable_prime \
    --max_num_workers "${WORKERS:-16}" "$@"
