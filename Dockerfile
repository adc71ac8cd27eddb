# Not run as an image: a test reads this file, and runs its commands in an environment of their own.
# docker build -t attribeam . && docker run -v /data/rag:/logs:ro -v /data/audits:/audits attribeam \
#     audit --input '/logs/*.parquet' --output /audits/first
FROM python:3.13-slim
WORKDIR /opt/attribeam
COPY . .
# --build-arg PIP_EXTRA_INDEX_URL=...: an index of torch's CPU build, without which the image holds CUDA's.
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --constraint constraints.txt .
ENTRYPOINT ["attribeam"]
CMD ["audit", "--input", "examples/qa_logs.parquet", "--output", "audits/example"]
