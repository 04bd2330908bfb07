// What the page asks as a command for a shell.

import {requestOf} from "./state.js";
import {hasKey} from "./stream.js";

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const keyHeader = () => (hasKey() ? ' -H "Authorization: Bearer $NOISED_API_KEY"' : "");

export function taskCommand(request, route) {
  return `curl -s ${location.origin}/${route}${keyHeader()} \\\n  -d ${quote(JSON.stringify(request))}`;
}

// Every column.
export function curlCommand(state) {
  const seeds = state.seeds.slice(0, state.columns).map((s) => s.value);
  const {noise_seed, ...rest} = requestOf(state, 0);
  const body = quote(JSON.stringify(rest).slice(0, -1) + ',"noise_seed":');
  return `for noise_seed in ${seeds.join(" ")}; do\n` +
    `  curl -s ${location.origin}/v1/completions${keyHeader()} \\\n    -d ${body}$noise_seed'}'; echo\ndone`;
}
