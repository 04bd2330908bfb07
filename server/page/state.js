// What is asked, and its form as the fragment of the page's address: a link holds everything, and a reload loses nothing.

// A browser opens six connections to a server and no more: a seventh column would wait for the others.
export const MOST_COLUMNS = 6;
const SEED_MAX = Number.MAX_SAFE_INTEGER;

export const sliders = [
  {name: "noise_scale", label: "Noise scale", low: 0, high: 8, step: 0.1, start: 2},
  {name: "temperature", label: "Temperature", low: 0, high: 2, step: 0.05, start: 0},
  {name: "top_p", label: "Top p", low: 0.05, high: 1, step: 0.05, start: 1},
];
export const numbers = [
  {name: "columns", label: "Columns", low: 1, high: MOST_COLUMNS, step: 1, start: 4},
  {name: "max_tokens", label: "Tokens", low: 1, high: 4096, step: 1, start: 60},
  {name: "seed", label: "Seed", low: 0, high: SEED_MAX, step: 1, start: 1},
  {name: "repetition_penalty", label: "Repetition", low: 0.5, high: 2, step: 0.05, start: 1.15},
];
const fields = [...sliders, ...numbers];

const clamp = (field, value) => {
  const v = Math.min(field.high, Math.max(field.low, Number(value)));
  return Number.isFinite(v) ? (field.step === 1 ? Math.round(v) : v) : field.start;
};
export const clampField = (name, value) => clamp(fields.find((f) => f.name === name), value);
export const clampSeed = (value) => clamp({low: 0, high: SEED_MAX, step: 1, start: 0}, value);
export const drawSeed = () => Math.floor(Math.random() * 10000);

// The fields that act otherwise than they would unsaid.
export const unlike = (state, defaults) => fields.filter((f) => f.name in defaults && f.name !== "seed" &&
  state[f.name] !== defaults[f.name]);

// asked: the columns were run, so that whoever opens the link sees them run again, to the same bytes.
export function readFragment(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = {prompt: given.get("prompt") ?? "It was a dark night, and", asked: given.get("asked") === "1"};
  for (const f of fields) state[f.name] = given.has(f.name) ? clamp(f, given.get(f.name)) : f.start;
  const seeds = (given.get("noise_seeds") ?? "").split(",").filter(Boolean).slice(0, MOST_COLUMNS);
  const locks = given.get("locks") ?? "";
  if (seeds.length) state.columns = seeds.length;
  state.seeds = [];
  for (let i = 0; i < MOST_COLUMNS; i++)
    state.seeds.push({value: i < seeds.length ? clampSeed(seeds[i]) : i + 1, locked: locks[i] === "1"});
  return state;
}

export function writeFragment(state) {
  const shown = state.seeds.slice(0, state.columns);
  const out = new URLSearchParams({prompt: state.prompt});
  for (const f of fields) if (f.name !== "columns") out.set(f.name, state[f.name]);
  out.set("noise_seeds", shown.map((s) => s.value).join(","));
  if (shown.some((s) => s.locked)) out.set("locks", shown.map((s) => (s.locked ? "1" : "0")).join(""));
  if (state.asked) out.set("asked", "1");
  return "#" + out;
}

// What is sent for a column. Every seed is named, so that the answer is a function of these fields.
export function requestOf(state, column) {
  return {
    prompt: state.prompt,
    max_tokens: state.max_tokens,
    temperature: state.temperature,
    top_p: state.top_p,
    repetition_penalty: state.repetition_penalty,
    seed: state.seed,
    noise_scale: state.noise_scale,
    noise_seed: state.seeds[column].value,
  };
}
