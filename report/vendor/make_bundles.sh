#!/usr/bin/env bash
# Bundles the page's scripts and libraries. It needs node and npm; neither attribeam nor its tests do.
#
#   make_bundles.sh vendors       plot.js, parquet.js and LICENCES.txt from npm packages
#   make_bundles.sh page [FILE]   ../assets/page.js, or FILE, from ../page_scripts
#   make_bundles.sh lint          check ../page_scripts: errors, import cycles, layout
#
# Without an argument it does all three. ATTRIBEAM_ESBUILD and ATTRIBEAM_BIOME may name programs that are installed
# already; otherwise npx fetches the versions below. After a change here, run the browser tests.
set -euo pipefail

ESBUILD=0.28.2
BIOME=2.6.8
PLOT=0.6.17
PARQUET_WRITER=0.17.0

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
sources="$here/../page_scripts"
work="$(mktemp -d)"
trap 'rm -rf -- "$work"' EXIT

esbuild() {
    if [[ -n "${ATTRIBEAM_ESBUILD:-}" ]]; then "$ATTRIBEAM_ESBUILD" "$@"; else npx --yes "esbuild@$ESBUILD" "$@"; fi
}

biome() {
    if [[ -n "${ATTRIBEAM_BIOME:-}" ]]; then "$ATTRIBEAM_BIOME" "$@"; else npx --yes "@biomejs/biome@$BIOME" "$@"; fi
}

lint() {
    cd -- "$sources"
    biome check --error-on-warnings .
}

page() { # file
    cd -- "$sources"
    local digest
    digest="$(LC_ALL=C sha256sum -- *.js | sha256sum | cut -d' ' -f1)"
    # Modules are strict, but the bundle is a classic script: the banner makes it strict again.
    local banner="// Bundle of report/page_scripts, made by report/vendor/make_bundles.sh; sources sha256 $digest"
    esbuild start.js --bundle --format=iife --charset=utf8 --legal-comments=none --log-level=warning \
        --banner:js="$banner"$'\n"use strict";' --outfile="$1"
}

vendor() { # entry, name of the global variable, file
    esbuild "$1" --bundle --minify --format=iife --charset=utf8 --global-name="$2" --legal-comments=none \
        --metafile="$2.json" --log-level=warning --outfile="$here/$3"
}

vendors() {
    cd -- "$work"
    npm init --yes >/dev/null
    npm install --no-audit --no-fund --silent "@observablehq/plot@$PLOT" "hyparquet-writer@$PARQUET_WRITER"
    cp -- "$here"/plot_entry.mjs "$here"/parquet_entry.mjs "$work"
    vendor plot_entry.mjs Plot plot.js
    vendor parquet_entry.mjs ParquetWriter parquet.js
    licences >"$here/LICENCES.txt"
}

licences() {
    node --input-type=module - <<'END'
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
END
}

case "${1:-all}" in
    vendors) vendors ;;
    page) page "$(realpath -m -- "${2:-$here/../assets/page.js}")" ;;
    lint) lint ;;
    all) (lint) && (page "$here/../assets/page.js") && (vendors) ;;
    *) echo "make_bundles: expected vendors, page or lint, found '$1'" >&2; exit 2 ;;
esac
