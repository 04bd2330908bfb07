// validate_openapi.mjs BUILD PACKAGES: whether what BUILD/noised answers to GET /openapi.json, with an API key and
// without, is OpenAPI 3.1 (@seriousme/openapi-schema-validator in PACKAGES), and whether answers are what it says, by
// a validator of JSON schemas that is not ours (ajv, which came with it).
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [build, packages] = process.argv.slice(2);
const require = createRequire(resolve(packages, 'package.json'));
const { Validator } = await import(pathToFileURL(require.resolve('@seriousme/openapi-schema-validator')));
const Ajv = require('ajv/dist/2020.js').default;

const start = (options) =>
  new Promise((ready, failed) => {
    const daemon = spawn(`${build}/noised`, ['--model', 'weights/demo', '--port', '0', ...options]);
    let said = '';
    daemon.stdout.on('data', (text) => {
      const line = /(http:\S+)\n/.exec((said += text));
      if (line) ready([daemon, line[1]]);
    });
    daemon.on('exit', (status) => failed(new Error(`noised ended with ${status}`)));
  });

let failures = 0;
const check = (what, good, why) => {
  console.log(good ? `ok   ${what}` : `FAIL ${what}: ${JSON.stringify(why)}`);
  if (!good) failures++;
};

const keyFile = join(mkdtempSync(join(tmpdir(), 'openapi-')), 'keys');
writeFileSync(keyFile, 'secret\n', { mode: 0o600 });
for (const options of [['--chat-template', 'plain'], ['--api-key-file', keyFile]]) {
  const [daemon, url] = await start(options);
  const headers = options.includes(keyFile) ? { authorization: 'Bearer secret' } : {};
  const document = await (await fetch(`${url}/openapi.json`, { headers })).json();
  const validator = new Validator();
  const { valid, errors } = await validator.validate(structuredClone(document));
  check(`OpenAPI ${validator.version}, ${options[0]}`, valid && validator.version === '3.1', errors);

  const ajv = new Ajv({ strict: false, allErrors: true });
  ajv.addSchema({ $id: 'document', ...document });
  const at = (name) => ajv.compile({ $ref: `document#/components/schemas/${name}` });
  const ask = async (path, body) =>
    await (await fetch(url + path, body && { method: 'POST', headers, body: JSON.stringify(body) })).text();
  const answers = [
    ['Error', '/v1/completions', { n: 0 }],
    ['Completion', '/v1/completions', { n: 2, logprobs: 2, prompt_logprobs: 1, return_token_ids: true, noise_scale: 0 }],
    ['Tokens', '/tokenize', { content: 'naïve', with_pieces: true }],
    ['Text', '/detokenize', { tokens: [1, 2] }],
    ['Chat', '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 3, logprobs: true, top_logprobs: 1 }],
    ['Health', '/health'],
  ];
  for (const [name, path, body] of answers) {
    const validate = at(name);
    check(`${name} of ${path}`, validate(JSON.parse(await ask(path, body))), validate.errors);
  }
  const event = at('CompletionEvent');
  const stream = await ask('/v1/completions', { stream: true, logprobs: 1, stream_options: { include_usage: true } });
  const events = stream.split('\n\n').filter((line) => line.startsWith('data: {'));
  check(`${events.length} events`, events.length > 1 && events.every((e) => event(JSON.parse(e.slice(6)))), event.errors);
  daemon.removeAllListeners('exit');
  daemon.kill();
}
process.exit(failures ? 1 : 0);
