// The frame of the suites in JavaScript: as suite.py, but the daemons are there already: at URL, one that wants KEY at KEYED,
// and one whose chats call tools at TOOLS.
import assert from "node:assert/strict";

export { assert };
export const url = process.env.URL;
export const keyed = process.env.KEYED;
export const key = process.env.KEY;
export const tools = process.env.TOOLS;
const cases = [];

// name, or names with values: a case for each of an object's entries.
export function test(name, values, body) {
    if (!body) cases.push([name, values]);
    else for (const [key, value] of Object.entries(values)) cases.push([`${name} ${key}`, () => body(value)]);
}

export async function collect(stream) {
    const all = [];
    for await (const item of stream) all.push(item);
    return all;
}

export async function run() {
    for (const [name, body] of cases) {
        try {
            await body();
            console.log("ok", name);
        } catch (e) {
            console.log(`not ok ${name} # ${e}`.replaceAll("\n", " ").slice(0, 600));
        }
    }
    process.exit(0); // whatever a client still holds open
}
