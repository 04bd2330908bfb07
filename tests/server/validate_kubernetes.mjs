// deploy/kubernetes as kustomize renders it, against the API server's schemas (kubernetes-models) and, for fields that no
// kind has, the client's own types (@kubernetes/client-node): node validate_kubernetes.mjs PACKAGES
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const packages = pathToFileURL(resolve(process.argv[2], "node_modules") + "/").href;
const { parseAllDocuments } = await import(packages + "yaml/dist/index.js");
const { ObjectSerializer } = await import(packages + "@kubernetes/client-node/dist/gen/models/ObjectSerializer.js");

function keysOf(value, path = "") {
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => [`${path}.${key}`, ...keysOf(inner, `${path}.${key}`)]);
}

// What is wrong with an object, "" if nothing is.
async function faults(object) {
    const models = await import(`${packages}kubernetes-models/${object.apiVersion}/index.js`);
    try {
        new models[object.kind](object).validate();
    } catch (e) {
        return e.message;
    }
    const version = object.apiVersion.split("/").at(-1);
    const type = version[0].toUpperCase() + version.slice(1) + object.kind;
    const known = JSON.parse(JSON.stringify(ObjectSerializer.serialize(ObjectSerializer.deserialize(object, type), type)));
    const kept = new Set(keysOf(known));
    return keysOf(object).filter((key) => !kept.has(key)).map((key) => `${key} is unknown`).join(", ");
}

// The validators are worth something: each of these must be refused.
const mistakes = [
    (d) => { d.spec.minReadySeconds = "5"; },
    (d) => { d.spec.template.spec.containers[0].readynessProbe = {}; },
    (d) => { d.spec.template.spec.securityContext.runAsNoRoot = true; },
    (d) => { delete d.spec.template.spec.containers[0].name; },
];

let bad = 0;
for (const folder of ["base", "overlays/example"]) {
    const text = execFileSync("kubectl", ["kustomize", "deploy/kubernetes/" + folder]).toString();
    const objects = parseAllDocuments(text).map((d) => d.toJS());
    for (const object of objects) {
        const fault = await faults(object);
        console.log(`${fault ? "FAIL" : "ok  "} ${folder} ${object.kind} ${object.metadata.name} ${fault}`);
        bad += fault !== "";
    }
    for (const mistake of mistakes) {
        const object = structuredClone(objects.find((o) => o.kind === "Deployment"));
        mistake(object);
        const fault = await faults(object);
        if (!fault) console.log(`FAIL not refused: ${mistake}`);
        bad += !fault;
    }
}
process.exit(bad ? 1 : 0);
