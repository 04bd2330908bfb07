// deploy/kubernetes as kustomize renders it, against the schemas of the API server, of KEDA and of Prometheus Operator as
// they publish them (kubernetes-models and @kubernetes-models). Fields that no kind has are found by types: the client's
// own (@kubernetes/client-node), and of the operators' kinds TypeScript's check of a literal.
//     node validate_kubernetes.mjs PACKAGES
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const packages = pathToFileURL(resolve(process.argv[2], "node_modules") + "/").href;
const { parseAllDocuments } = await import(packages + "yaml/dist/index.js");
const { ObjectSerializer } = await import(packages + "@kubernetes/client-node/dist/gen/models/ObjectSerializer.js");

function keysOf(value, path = "") {
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => [`${path}.${key}`, ...keysOf(inner, `${path}.${key}`)]);
}

const operators = { "keda.sh": "@kubernetes-models/keda", "monitoring.coreos.com": "@kubernetes-models/prometheus-operator" };

function unknownToTypes(object, from) {
    const file = resolve(process.argv[2], "literal.mts");
    writeFileSync(file, `import { ${object.kind} } from "${from}/${object.apiVersion}";\n` +
        `new ${object.kind}(${JSON.stringify({ ...object, apiVersion: undefined, kind: undefined })});\n`);
    const tsc = spawnSync(process.execPath, [resolve(process.argv[2], "node_modules/typescript/bin/tsc"), "--noEmit",
        "--skipLibCheck", "--module", "nodenext", "--target", "es2022", file], { encoding: "utf8" });
    return tsc.status === 0 ? "" : tsc.stdout;
}

// The labels by which it chooses pods, where they are none of the Deployment's: chosen so, no pod is.
function missed(object, objects) {
    const chosen = { PodDisruptionBudget: (o) => o.spec.selector, NetworkPolicy: (o) => o.spec.podSelector }[object.kind];
    if (!chosen) return "";
    const labels = Object.entries(chosen(object)?.matchLabels ?? {});
    const pods = objects.find((o) => o.kind === "Deployment").spec.template.metadata.labels;
    return labels.length && labels.every(([name, value]) => pods[name] === value) ? "" : "selects none of the Deployment's pods";
}

// An operator's object looks for what it scrapes or scales in its own namespace. Volumes have none.
function astray(object, objects) {
    const there = objects.find((o) => o.kind === "Deployment").metadata.namespace, here = object.metadata.namespace;
    return here === there || object.kind === "PersistentVolume" ? "" : `is in namespace ${here}, the Deployment in ${there}`;
}

// What is wrong with an object among the objects, "" if nothing is.
async function faults(object, objects) {
    const operator = operators[object.apiVersion.split("/")[0]], from = operator ?? "kubernetes-models";
    const models = await import(`${packages}${from}/${object.apiVersion}/index.js`);
    try {
        new models[object.kind](object).validate();
    } catch (e) {
        return e.message;
    }
    if (astray(object, objects)) return astray(object, objects);
    if (operator) return unknownToTypes(object, operator);
    const version = object.apiVersion.split("/").at(-1);
    const type = version[0].toUpperCase() + version.slice(1) + object.kind;
    const known = JSON.parse(JSON.stringify(ObjectSerializer.serialize(ObjectSerializer.deserialize(object, type), type)));
    const kept = new Set(keysOf(known));
    const unknown = keysOf(object).filter((key) => !kept.has(key)).map((key) => `${key} is unknown`).join(", ");
    return unknown || missed(object, objects);
}

// The validators are worth something: each of these must be refused, wherever there is such a kind.
const mistakes = [
    ["Deployment", (d) => { d.spec.minReadySeconds = "5"; }],
    ["Deployment", (d) => { d.spec.template.spec.containers[0].readynessProbe = {}; }],
    ["Deployment", (d) => { d.spec.template.spec.securityContext.runAsNoRoot = true; }],
    ["Deployment", (d) => { delete d.spec.template.spec.containers[0].name; }],
    ["NetworkPolicy", (d) => { d.spec.ingres = []; }],
    ["NetworkPolicy", (d) => { d.spec.podSelector = { matchLabels: { app: "noised" } }; }],
    ["PodDisruptionBudget", (d) => { delete d.spec.selector; }],
    ["ScaledObject", (d) => { delete d.metadata.namespace; }],
    ["ScaledObject", (d) => { d.spec.maxReplicaCount = "8"; }],
    ["ScaledObject", (d) => { d.spec.maxReplicas = 8; }],
    ["ScaledObject", (d) => { delete d.spec.triggers[0].metadata; }],
    ["ServiceMonitor", (d) => { d.spec.endpoints[0].intervall = "15s"; }],
    ["ServiceMonitor", (d) => { delete d.spec.selector; }],
    ["PrometheusRule", (d) => { d.spec.groups[0].rules[0].for = "a minute"; }],
    ["PrometheusRule", (d) => { d.spec.groups[0].rules[0].alarm = "x"; }],
];

let bad = 0;
for (const folder of ["base", "overlays/example", "overlays/operators"]) {
    const text = execFileSync("kubectl", ["kustomize", "deploy/kubernetes/" + folder]).toString();
    const objects = parseAllDocuments(text).map((d) => d.toJS());
    for (const object of objects) {
        const fault = await faults(object, objects);
        console.log(`${fault ? "FAIL" : "ok  "} ${folder} ${object.kind} ${object.metadata.name} ${fault}`);
        bad += fault !== "";
    }
    for (const [kind, mistake] of mistakes) {
        const object = structuredClone(objects.find((o) => o.kind === kind));
        if (!object) continue;
        mistake(object);
        const fault = await faults(object, objects);
        if (!fault) console.log(`FAIL not refused: ${mistake}`);
        bad += !fault;
    }
}
process.exit(bad ? 1 : 0);
