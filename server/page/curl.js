// The columns as a command for a shell.

import {requestOf} from "./state.js";
import {hasKey} from "./stream.js";

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

export function curlCommand(state) {
  const seeds = state.seeds.slice(0, state.columns).map((s) => s.value);
  const {noise_seed, ...rest} = requestOf(state, 0);
  const body = quote(JSON.stringify(rest).slice(0, -1) + ',"noise_seed":');
  const key = hasKey() ? ' -H "Authorization: Bearer $NOISED_API_KEY"' : "";
  return `for noise_seed in ${seeds.join(" ")}; do\n` +
    `  curl -s ${location.origin}/v1/completions${key} \\\n    -d ${body}$noise_seed'}'; echo\ndone`;
}
