#!/usr/bin/env bash
# Makes plot.js, parquet.js and LICENCES.txt from npm packages. It needs node and npm; neither attribeam nor its tests do.
# Change a version here, run it, and run the browser tests.
set -euo pipefail

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf -- "$work"' EXIT

cd -- "$work"
npm init --yes >/dev/null
npm install --no-audit --no-fund --silent @observablehq/plot@0.6.17 hyparquet-writer@0.17.0 esbuild@0.28.2
cp -- "$here"/plot_entry.mjs "$here"/parquet_entry.mjs "$work"

bundle() { # entry, name of the global variable, file
    npx esbuild "$1" --bundle --minify --format=iife --charset=utf8 --global-name="$2" --legal-comments=none \
        --metafile="$2.json" --log-level=warning --outfile="$here/$3"
}
bundle plot_entry.mjs Plot plot.js
bundle parquet_entry.mjs ParquetWriter parquet.js

node --input-type=module - >"$here/LICENCES.txt" <<'EOF'
import {existsSync, readFileSync, readdirSync} from "node:fs";
const folders = new Set();
for (const name of ["Plot", "ParquetWriter"]) {
  for (const input of Object.keys(JSON.parse(readFileSync(`${name}.json`, "utf8")).inputs)) {
    const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) folders.add(found[1]);
  }
}
console.log("plot.js and parquet.js hold code of these packages.");
for (const name of [...folders].sort()) {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  console.log(`\n---- ${name} ${about.version} (${about.license}) ----\n`);
  console.log(file && existsSync(`${folder}/${file}`) ? readFileSync(`${folder}/${file}`, "utf8").trim() : `By ${about.author?.name ?? about.author}`);
}
EOF
