// What the page asks as a command for a shell.

import {requestOf, seedsOf} from "./state.js";
import {hasKey, routeOf} from "./stream.js";

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const keyHeader = () => (hasKey() ? ' -H "Authorization: Bearer $NOISED_API_KEY"' : "");

export function taskCommand(request, route) {
  return `curl -s ${location.origin}/${route}${keyHeader()} \\\n  -d ${quote(JSON.stringify(request))}`;
}

// Every column.
export function curlCommand(state) {
  const seeds = seedsOf(state).map((s) => s.value);
  const {noise_seed, ...rest} = requestOf(state, 0);
  const body = quote(JSON.stringify(rest).slice(0, -1) + ',"noise_seed":');
  return `for noise_seed in ${seeds.join(" ")}; do\n` +
    `  curl -s ${location.origin}/${routeOf(rest)}${keyHeader()} \\\n    -d ${body}$noise_seed'}'; echo\ndone`;
}
