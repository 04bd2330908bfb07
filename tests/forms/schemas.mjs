// schemas.mjs BUILD PACKAGES: JSON schemas as forms, against validators and cases that are not ours: ajv in PACKAGES, and
// the JSON Schema Test Suite (draft 2020-12) below PACKAGES/suite. ANSWERS=10000: so many answers of the demo.
//
//   suite       what the form of a supported schema takes is valid by the suite; of the valid ones, how many it takes
//   instances   5,000 instances of schemas.json that ajv calls valid are taken; of 5,000 spoilt ones, only valid ones
//   answers     answers of the demo at temperature 1.5 under schemas.json are valid where they end by themselves
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [build, packages] = process.argv.slice(2);
const require = createRequire(resolve(packages, 'package.json'));
const Ajv = require('ajv/dist/2020.js').default;
const addFormats = require('ajv-formats').default;
const here = dirname(fileURLToPath(import.meta.url));
const schemas = JSON.parse(readFileSync(join(here, 'schemas.json')));

const ajv = addFormats(new Ajv({ strict: false, validateFormats: true }));
const validators = schemas.map((s) => ajv.compile(s));

let passed = 0, failures = 0;
const check = (good, what) => {
  if (!good) console.log(`FAIL ${what}`);
  if (good) passed++; else failures++;
};

// Lines {schema, texts} to what build/form-check says of each.
const forms = (lines) =>
  new Promise((done, failed) => {
    const child = spawn(`${build}/form-check`);
    let said = '';
    child.stdout.on('data', (text) => (said += text));
    child.on('close', (code) => (code ? failed(new Error(`form-check ended with ${code}`)) : done(said.trim().split('\n').map((l) => JSON.parse(l)))));
    child.stdin.end(lines.map((l) => JSON.stringify(l) + '\n').join(''));
  });

// ---- the suite ----

const suite = async () => {
  const folder = join(packages, 'suite');
  const groups = readdirSync(folder).filter((f) => f.endsWith('.json')).flatMap((file) =>
    JSON.parse(readFileSync(join(folder, file))).map((g) => ({ file, ...g })));
  const said = await forms(groups.map((g) => ({ schema: g.schema, texts: g.tests.map((t) => JSON.stringify(t.data)) })));
  let supported = 0, valid = 0, taken = 0, invalid = 0;
  groups.forEach((g, i) => {
    if (said[i].error) return;
    supported++;
    g.tests.forEach((t, k) => {
      const whole = said[i].taken[k] === '2';
      check(t.valid || !whole, `${g.file}: ${g.description}: ${t.description}: taken, and not valid`);
      if (t.valid) valid++; else invalid++;
      if (t.valid && whole) taken++;
    });
  });
  console.log(`suite: ${supported} of ${groups.length} schemas; ${invalid} invalid instances, none taken; ${taken} of ${valid} valid ones taken`);
  check(supported > 100 && taken > 150, 'the suite says too little');
};

// ---- instances ----

let state = 1; // of a linear congruence: the same instances every time
const below = (n) => ((state = (state * 1103515245 + 12345) % 2147483648), Math.floor((state / 2147483648) * n));
const pick = (list) => list[below(list.length)];
const letters = ['a', 'Z', '0', ' ', '-', '"', '\\', '/', '\n', 'é', '€', '😀'];
const text = (low, high) => Array.from({ length: low + below(high - low + 1) }, () => pick(letters)).join('');
const examples = { // of expressions and formats, which nothing here makes texts of
  '^[A-Z][a-z]{2,12}( [A-Z][a-z]{2,12})?$': ['Ada', 'Ada Lovelace'], '^\\d{3}-\\d{4}$': ['555-1234'],
  '^[^\\s@"]{1,9}@[a-z]{1,9}\\.(com|org)$': ['a\\b@c.com', 'é/@x.org'], '^[A-Z]{2}[0-9]{2}$': ['AB12'], '(cat|dog)s?$': ['cats', 'a "dog', 'é\ncat'],
  date: ['2024-02-29', '1999-12-31'], 'date-time': ['2024-02-29T23:59:59.5Z', '2001-01-01T00:00:00+01:00'], time: ['12:00:00Z'],
  uuid: ['2eb8aa08-aa98-11ea-b4aa-73b441d16380'], ipv4: ['127.0.0.1', '255.255.255.255'], email: ['a.b@c.org'], hostname: ['a-b.example'],
};
const instance = (root, s, deep = 0) => {
  if (s === true) return pick([1, 'x', null, [1], { y: 2 }]);
  if (s.$ref) return instance(root, s.$ref.slice(2).split('/').reduce((o, k) => o[k], root), deep + 1);
  if ('const' in s) return s.const;
  if (s.enum) return pick(s.enum);
  const any = s.anyOf ?? s.oneOf ?? s.allOf;
  if (any) return instance(root, deep > 3 ? any[0] : pick(any), deep);
  const type = Array.isArray(s.type) ? pick(s.type) : s.type;
  const low = s.minimum ?? (s.exclusiveMinimum !== undefined ? s.exclusiveMinimum + 1 : -100);
  const high = s.maximum ?? (s.exclusiveMaximum !== undefined ? s.exclusiveMaximum - 1 : low + 1000);
  if (type === 'null') return null;
  if (type === 'boolean') return below(2) === 1;
  if (type === 'integer') return low + below(high - low + 1);
  if (type === 'number') return below(2) ? low + below(high - low) : low + below((high - low) * 100) / 100;
  if (type === 'string') return s.pattern || s.format ? pick(examples[s.pattern ?? s.format]) : text(s.minLength ?? 0, Math.min(s.maxLength ?? 20, 30));
  if (type === 'array') {
    const first = s.prefixItems ?? [], rest = s.items === false || (first.length && s.items === undefined) ? 0 : 5;
    const least = s.minItems ?? 0, n = least + below(Math.max(Math.min(s.maxItems ?? first.length + rest, first.length + rest) - least, 0) + 1);
    return Array.from({ length: deep > 3 ? least : n }, (_, i) => instance(root, first[i] ?? s.items ?? true, deep + 1));
  }
  const made = {};
  for (const [name, p] of Object.entries(s.properties ?? {}))
    if (s.required?.includes(name) || below(2)) made[name] = instance(root, p, deep + 1);
  if (s.additionalProperties)
    for (let i = below(3); i > 0; i--) made[pick(['z', 'i', 'idea', 'other', 'é'])] = instance(root, s.additionalProperties, deep + 1);
  return made;
};

// One thing of it is another.
const spoil = (v) => {
  const other = () => pick([null, true, 0, -1, 1.5, 151, '', 'x', 'a longer text than most', [], {}, [[1]], { a: 1 }]);
  if (v === null || typeof v !== 'object' || !Object.keys(v).length || !below(4)) return other();
  const copy = structuredClone(v), key = pick(Object.keys(copy)), what = below(4);
  if (what === 0 && Array.isArray(copy)) copy.push(other());
  else if (what === 0) delete copy[key];
  else if (what === 1 && !Array.isArray(copy)) copy[pick(['zz', 'extra'])] = other();
  else copy[key] = spoil(copy[key]);
  return copy;
};

const instances = async (n) => {
  const each = Math.ceil(n / schemas.length);
  const values = schemas.map((s) => Array.from({ length: each }, () => instance(s, s)));
  const spoilt = values.map((list) => list.map(spoil));
  const print = (v, i) => JSON.stringify(v, null, [0, 1, 2][i % 3]);
  const said = await forms(schemas.map((schema, i) => ({ schema, texts: [...values[i], ...spoilt[i]].map(print) })));
  let wrong = 0;
  schemas.forEach((s, i) => {
    check(said[i].taken, `${JSON.stringify(s)}: ${said[i].error}`);
    values[i].forEach((v, k) => {
      check(validators[i](v), `made an instance that is none: ${JSON.stringify(v)} of ${JSON.stringify(s)}`);
      check(said[i].taken[k] === '2', `not taken: ${print(v, k)} of ${JSON.stringify(s)}`);
    });
    spoilt[i].forEach((v, k) => {
      const valid = validators[i](v);
      if (!valid) wrong++;
      check(valid || said[i].taken[each + k] !== '2', `taken, and not valid: ${JSON.stringify(v)} of ${JSON.stringify(s)}`);
    });
  });
  console.log(`instances: ${each * schemas.length} valid ones taken, ${wrong} spoilt ones not`);
};

// ---- answers of the demo ----

const start = () =>
  new Promise((ready, failed) => {
    const daemon = spawn(`${build}/noised`, ['--model', 'weights/demo', '--port', '0', '--max-n', '64']);
    let said = '';
    daemon.stdout.on('data', (t) => {
      const line = /(http:\S+)\n/.exec((said += t));
      if (line) ready([daemon, line[1]]);
    });
    daemon.on('exit', (status) => failed(new Error(`noised ended with ${status}`)));
  });

const answers = async (n) => {
  const [daemon, url] = await start();
  const each = Math.ceil(n / schemas.length);
  let ended = 0;
  const cut = schemas.map(() => []);
  for (const [i, schema] of schemas.entries())
    for (let done = 0; done < each; done += 50) {
      const body = { prompt: 'It was', json_schema: schema, n: Math.min(50, each - done), max_tokens: 200, temperature: 1.5, seed: done };
      const answer = await (await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) })).json();
      check(answer.choices, `${JSON.stringify(schema)}: ${JSON.stringify(answer.error)}`);
      for (const c of answer.choices ?? []) {
        if (c.finish_reason !== 'stop') {
          cut[i].push(c.text.replace(/\uFFFD+$/, '')); // a code point that was cut
          continue;
        }
        ended++;
        let valid = false;
        try {
          valid = validators[i](JSON.parse(c.text));
        } catch {}
        check(valid, `answered ${c.text} for ${JSON.stringify(schema)}`);
      }
    }
  daemon.removeAllListeners('exit');
  daemon.kill();
  const said = await forms(schemas.map((schema, i) => ({ schema, texts: cut[i] })));
  said.forEach((s, i) => check(!s.taken.includes('0'), `a cut answer begins no instance of ${JSON.stringify(schemas[i])}`));
  console.log(`answers: ${ended} of ${each * schemas.length} ended, all valid; the others begin instances`);
  check(ended > 0.9 * each * schemas.length, 'too few answers ended');
};

await suite();
await instances(5000);
await answers(Number(process.env.ANSWERS ?? 1000));
console.log(`${passed} passed, ${failures} failed`);
process.exit(failures ? 1 : 0);
