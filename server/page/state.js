// What is asked, and its form as the fragment of the page's address: a link holds everything, and a reload loses nothing.

const MOST_SEEDS = 64;
// So many answers stand side by side; of more a map is drawn, and columns are opened from it.
const SIDE_BY_SIDE = 6;
const SEED_MAX = Number.MAX_SAFE_INTEGER;

export const sliders = [
  {name: "noise_scale", label: "Noise scale", low: 0, high: 8, step: 0.1, start: 1},
  {name: "temperature", label: "Temperature", low: 0, high: 2, step: 0.05, start: 0},
  {name: "top_p", label: "Top p", low: 0.05, high: 1, step: 0.05, start: 1},
];
export const numbers = [
  {name: "columns", label: "Seeds", low: 1, high: MOST_SEEDS, step: 1, start: 4},
  {name: "max_tokens", label: "Tokens", low: 1, high: 4096, step: 1, start: 60},
  {name: "seed", label: "Seed", low: 0, high: SEED_MAX, step: 1, start: 1},
  {name: "repetition_penalty", label: "Repetition", low: 0.5, high: 2, step: 0.05, start: 1.15},
];
const fields = [...sliders, ...numbers];

export const clamp = (field, value) => {
  const v = Math.min(field.high, Math.max(field.low, Number(value)));
  return Number.isFinite(v) ? (field.step === 1 ? Math.round(v) : v) : field.start;
};
export const clampField = (name, value) => clamp(fields.find((f) => f.name === name), value);
export const seedField = {low: 0, high: SEED_MAX, step: 1, start: 0};
export const clampSeed = (value) => clamp(seedField, value);

// New noise where there is no lock, and none of it twice.
export function drawSeeds(seeds) {
  const taken = new Set(seeds.filter((s) => s.locked).map((s) => s.value));
  for (const s of seeds.filter((s) => !s.locked)) {
    do s.value = Math.floor(Math.random() * 10000); while (taken.has(s.value));
    taken.add(s.value);
  }
}

// The fields that act otherwise than they would unsaid.
export const unlike = (state, defaults) => fields.filter((f) => f.name in defaults && f.name !== "seed" &&
  state[f.name] !== defaults[f.name]);

const json = (text, otherwise) => {
  try { return JSON.parse(text) ?? otherwise; } catch { return otherwise; }
};
const numbersOf = (text) => (text ?? "").split(",").filter(Boolean);

// seeds: of every column its noise seed, whether it is locked, and how many tokens beyond max_tokens it goes on.
// open: the columns that are opened from the map. chat: null for texts, else {system, turns: [[message, answer, noise seed]]}.
// extra: fields of the request that have no control. asked: the columns were run, so that whoever opens the link sees
// them run again, to the same bytes.
export function readFragment(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = {prompt: given.get("prompt") ?? "It was a dark night, and", asked: given.get("asked") === "1",
    chat: json(given.get("chat"), null), extra: {}};
  const {turns} = state.chat ?? {};
  if (!Array.isArray(turns) || !turns.every((t) => [0, 1].every((i) => typeof t?.[i] === "string"))) state.chat = null;
  try { takeSampling(state, given.get("extra")); } catch {} // what no request may say, a link does not either
  for (const f of fields) state[f.name] = given.has(f.name) ? clamp(f, given.get(f.name)) : f.start;
  const seeds = numbersOf(given.get("noise_seeds")).slice(0, MOST_SEEDS), longer = numbersOf(given.get("longer"));
  const locks = given.get("locks") ?? "";
  if (seeds.length) state.columns = seeds.length;
  state.open = numbersOf(given.get("open")).map((i) => i - 1).filter((i) => i >= 0 && i < state.columns);
  state.seeds = Array.from({length: MOST_SEEDS}, (_, i) => ({value: i < seeds.length ? clampSeed(seeds[i]) : i + 1,
    locked: locks[i] === "1", longer: Math.max(0, Number(longer[i]) || 0)}));
  return state;
}

export function writeFragment(state) {
  const shown = state.seeds.slice(0, state.columns);
  const out = new URLSearchParams({prompt: state.prompt});
  for (const f of fields) if (f.name !== "columns") out.set(f.name, state[f.name]);
  out.set("noise_seeds", shown.map((s) => s.value).join(","));
  if (shown.some((s) => s.locked)) out.set("locks", shown.map((s) => (s.locked ? "1" : "0")).join(""));
  if (shown.some((s) => s.longer)) out.set("longer", shown.map((s) => s.longer).join(","));
  if (isMap(state) && state.open.length) out.set("open", state.open.map((i) => i + 1).join(","));
  if (state.chat) out.set("chat", JSON.stringify(state.chat));
  if (Object.keys(state.extra).length) out.set("extra", JSON.stringify(state.extra));
  if (state.asked) out.set("asked", "1");
  return "#" + out;
}

export const isMap = (state) => state.columns > SIDE_BY_SIDE;
export const seedsOf = (state) => state.seeds.slice(0, state.columns);

// The fields of a request that neither say what is answered nor which noise acts.
export function samplingOf(state) {
  const {max_tokens, temperature, top_p, repetition_penalty, seed, noise_scale, extra} = state;
  return {max_tokens, temperature, top_p, repetition_penalty, seed, noise_scale, ...extra};
}

// What the page says itself, column by column.
const OWN = ["model", "prompt", "messages", "n", "best_of", "stream", "stream_options", "stream_from", "if_fingerprint", "echo",
  "logprobs", "top_logprobs", "return_token_ids", "noise_seed"];

// Takes the fields of a text of JSON; throws an Error for the reader, and takes none then.
export function takeSampling(state, text) {
  const given = JSON.parse(text || "{}"), extra = {};
  if (!given || typeof given !== "object" || Array.isArray(given)) throw new Error("The fields are an object, in braces.");
  const own = OWN.find((name) => name in given);
  if (own) throw new Error(`The page says "${own}" itself.`);
  const known = fields.filter((f) => f.name !== "columns");
  for (const [name, value] of Object.entries(given)) if (!known.some((f) => f.name === name)) extra[name] = value;
  for (const f of known) {
    const value = given[f.name] ?? f.start;
    if (clamp(f, value) !== value) throw new Error(`"${f.name}" is a number from ${f.low} to ${f.high}.`);
  }
  for (const f of known) state[f.name] = given[f.name] ?? f.start;
  state.extra = extra;
}

// What is sent for a column. Every seed is named, so that the answer is a function of these fields.
export function requestOf(state, column) {
  const {value, longer} = state.seeds[column], sampling = samplingOf(state);
  return {...promptOf(state), ...sampling, max_tokens: sampling.max_tokens + longer, noise_seed: value};
}

export function promptOf({chat, prompt}) {
  if (!chat) return {prompt};
  const say = (role, content) => ({role, content});
  return {messages: [...(chat.system ? [say("system", chat.system)] : []),
    ...chat.turns.flatMap(([message, answer]) => [say("user", message), say("assistant", answer)]), say("user", prompt)]};
}
