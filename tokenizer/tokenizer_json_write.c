#include "base/atomic_file.h"
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static void put_escaped(Buffer *f, TokenText text) {
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            buffer_print(f, "\\%c", c);
        else if (c < ' ')
            buffer_print(f, "\\u%04x", c);
        else
            buffer_append(f, &c, 1);
    }
}

static void put_text(Buffer *f, TokenText text) {
    buffer_text(f, "\"");
    put_escaped(f, text);
    buffer_text(f, "\"");
}

/* ---- spelling ---- */

/* The vocabulary key of every token, malloc'ed in one block: bytes in GPT-2's alphabet, SentencePiece as it stands. */
static char *spell_pieces(const TokenizerSpec *s, TokenText *keys) {
    int code[256]; /* the character that stands for a byte */
    for (int i = 0; i < 256; i++) code[byte_level_order(i)] = i < 188 ? byte_level_order(i) : 256 + i - 188;
    size_t total = 0;
    for (int id = 0; id < s->n_pieces; id++) total += 2 * s->pieces[id].n;
    char *all = xmalloc(total), *at = all;
    for (int id = 0; id < s->n_pieces; id++) {
        keys[id] = s->pieces[id];
        if (s->style != TOKEN_BYTE_LEVEL) continue;
        keys[id].data = at;
        for (size_t i = 0; i < s->pieces[id].n; i++) {
            int c = code[(unsigned char)s->pieces[id].data[i]];
            if (c >= 0x80) *at++ = (char)(0xC0 | c >> 6);
            *at++ = (char)(c < 0x80 ? c : 0x80 | (c & 0x3F));
        }
        keys[id].n = (size_t)(at - keys[id].data);
    }
    /* An added token outside the vocabulary is written into it: readers then agree on its id. */
    for (int i = 0; i < s->n_added; i++)
        if (keys[s->added[i].id].n == 0) keys[s->added[i].id] = s->added[i].text;
    return all;
}

/* ---- parts ---- */

static const char *truth(bool b) { return b ? "true" : "false"; }

static void put_added(Buffer *f, const TokenizerSpec *s) {
    buffer_text(f, "  \"added_tokens\": [");
    for (int i = 0; i < s->n_added; i++) {
        const AddedToken *a = &s->added[i];
        buffer_print(f, "%s\n    {\n      \"id\": %d,\n      \"content\": ", i ? "," : "", a->id);
        put_text(f, a->text);
        buffer_print(f,
                     ",\n      \"single_word\": false,\n      \"lstrip\": false,\n      \"rstrip\": false,\n"
                     "      \"normalized\": %s,\n      \"special\": %s\n    }",
                     truth(a->normalized), truth(a->special));
    }
    buffer_text(f, s->n_added ? "\n  ],\n" : "],\n");
}

#define REPLACE(from, to) "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"

static void put_normalizer(Buffer *f, const TokenizerSpec *s) {
    if (s->lowercase)
        buffer_text(f, "  \"normalizer\": {\"type\": \"Lowercase\"},\n");
    else if (s->style == TOKEN_SENTENCE_PIECE && s->prepend == PREPEND_NORMALIZER)
        buffer_text(f, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [\n"
                       "    {\"type\": \"Prepend\", \"prepend\": \"" SPACE_MARK "\"},\n"
                       "    " REPLACE(" ", SPACE_MARK) "\n  ]},\n");
    else
        buffer_text(f, s->nfc ? "  \"normalizer\": {\"type\": \"NFC\"},\n" : "  \"normalizer\": null,\n");
}

static void put_byte_level_words(Buffer *f, const TokenizerSpec *s) {
    static const char byte_level[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, \"use_regex\": %s}";
    bool gpt2 = s->n_words == 1 && strcmp(s->words[0], GPT2_WORDS) == 0;
    buffer_text(f, "  \"pre_tokenizer\": ");
    if (gpt2 || s->n_words == 0) {
        buffer_print(f, byte_level, truth(s->prepend == PREPEND_ALWAYS), truth(gpt2));
    } else {
        buffer_text(f, "{\"type\": \"Sequence\", \"pretokenizers\": [\n");
        for (int i = 0; i < s->n_words; i++) {
            buffer_text(f, "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
            put_text(f, (TokenText){.data = s->words[i], .n = strlen(s->words[i])});
            buffer_text(f, "}, \"behavior\": \"Isolated\", \"invert\": false},\n");
        }
        buffer_text(f, "    ");
        buffer_print(f, byte_level, "false", "false");
        buffer_text(f, "\n  ]}");
    }
    buffer_text(f, ",\n");
}

static void put_pre_tokenizer(Buffer *f, const TokenizerSpec *s) {
    static const char *const schemes[] = {
        [PREPEND_NEVER] = "never", [PREPEND_FIRST] = "first", [PREPEND_ALWAYS] = "always"};
    if (s->style == TOKEN_WORDS)
        buffer_text(f, "  \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"},\n");
    else if (s->style == TOKEN_BYTE_LEVEL)
        put_byte_level_words(f, s);
    else if (s->prepend == PREPEND_NORMALIZER)
        buffer_text(f, "  \"pre_tokenizer\": null,\n");
    else
        buffer_print(f,
                     "  \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" SPACE_MARK "\", "
                     "\"prepend_scheme\": \"%s\", \"split\": %s},\n",
                     schemes[s->prepend], truth(s->split));
}

static void put_template_token(Buffer *f, TokenText key) {
    buffer_text(f, "{\"SpecialToken\": {\"id\": ");
    put_text(f, key);
    buffer_text(f, ", \"type_id\": 0}}");
}

static void put_template_id(Buffer *f, TokenText key, int id) {
    put_text(f, key);
    buffer_text(f, ": {\"id\": ");
    put_text(f, key);
    buffer_print(f, ", \"ids\": [%d], \"tokens\": [", id);
    put_text(f, key);
    buffer_text(f, "]}");
}

static void put_post_processor(Buffer *f, const TokenizerSpec *s, const TokenText *keys) {
    bool front = s->bos >= 0, behind = s->tail >= 0, both = front && behind;
    if (!front && !behind) {
        buffer_text(f, "  \"post_processor\": null,\n");
        return;
    }
    buffer_text(f, "  \"post_processor\": {\"type\": \"TemplateProcessing\",\n    \"single\": [");
    if (front) put_template_token(f, keys[s->bos]);
    buffer_print(f, "%s{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}%s", front ? ", " : "", behind ? ", " : "");
    if (behind) put_template_token(f, keys[s->tail]);
    buffer_text(f, "],\n    \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
                   "\"type_id\": 1}}],\n    \"special_tokens\": {");
    if (front) put_template_id(f, keys[s->bos], s->bos);
    if (both && s->bos != s->tail) buffer_text(f, ", ");
    if (behind && s->bos != s->tail) put_template_id(f, keys[s->tail], s->tail);
    buffer_text(f, "}\n  },\n");
}

static void put_decoder(Buffer *f, const TokenizerSpec *s) {
    if (s->style == TOKEN_WORDS)
        buffer_text(f, "  \"decoder\": null,\n");
    else if (s->style == TOKEN_BYTE_LEVEL)
        buffer_text(f, "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
                       "\"use_regex\": true},\n");
    else
        buffer_print(
            f,
            "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
            "    " REPLACE(SPACE_MARK, " ") ",\n    {\"type\": \"ByteFallback\"},\n    {\"type\": \"Fuse\"}%s\n  ]},\n",
            s->strip_space ? ",\n    {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}" : "");
}

/* GPT-2's alphabet has no space, so the older form serves, which every reader knows. */
static void put_merge(Buffer *f, const TokenizerSpec *s, TokenText left, TokenText right) {
    if (s->style == TOKEN_BYTE_LEVEL) {
        buffer_text(f, "\"");
        put_escaped(f, left);
        buffer_text(f, " ");
        put_escaped(f, right);
        buffer_text(f, "\"");
    } else {
        buffer_text(f, "[");
        put_text(f, left);
        buffer_text(f, ", ");
        put_text(f, right);
        buffer_text(f, "]");
    }
}

static void put_vocabulary(Buffer *f, const TokenizerSpec *s, const TokenText *keys) {
    buffer_text(f, "    \"vocab\": {");
    for (int id = 0; id < s->n_pieces; id++) {
        buffer_text(f, id ? ",\n      " : "\n      ");
        put_text(f, keys[id]);
        buffer_print(f, ": %d", id);
    }
    buffer_text(f, "\n    }");
}

static void put_word_level(Buffer *f, const TokenizerSpec *s, const TokenText *keys) {
    buffer_text(f, "  \"model\": {\n    \"type\": \"WordLevel\",\n    \"unk_token\": ");
    put_text(f, keys[s->unknown]);
    buffer_text(f, ",\n");
    put_vocabulary(f, s, keys);
    buffer_text(f, "\n  }\n}\n");
}

static void put_bpe(Buffer *f, const TokenizerSpec *s, const TokenText *keys) {
    buffer_print(
        f,
        "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
        "    \"continuing_subword_prefix\": \"\",\n    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": false,\n"
        "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
        truth(s->style == TOKEN_SENTENCE_PIECE), truth(s->ignore_merges));
    put_vocabulary(f, s, keys);
    buffer_text(f, ",\n    \"merges\": [");
    for (int rank = 0; rank < s->n_merges; rank++) {
        buffer_text(f, rank ? ",\n      " : "\n      ");
        put_merge(f, s, keys[s->merges[rank].left], keys[s->merges[rank].right]);
    }
    buffer_text(f, s->n_merges ? "\n    ]\n  }\n}\n" : "]\n  }\n}\n");
}

static void print(const Tokenizer *t, Buffer *f) {
    const TokenizerSpec *s = tokenizer_spec(t);
    TokenText *keys = xmalloc((size_t)s->n_pieces * sizeof *keys);
    char *spelt = spell_pieces(s, keys);
    buffer_text(f, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(f, s);
    put_normalizer(f, s);
    put_pre_tokenizer(f, s);
    put_post_processor(f, s, keys);
    put_decoder(f, s);
    (s->style == TOKEN_WORDS ? put_word_level : put_bpe)(f, s, keys);
    free(spelt);
    free(keys);
}

int tokenizer_json_save(const Tokenizer *t, const char *path, Err *err) {
    Buffer f = {0};
    print(t, &f);
    int rc = f.failed ? err_set(err, "%s: no memory to write it", path) : file_write(path, f.data, f.n, err);
    buffer_free(&f);
    return rc;
}

int tokenizer_json_sha256(const Tokenizer *t, char hex[SHA256_HEX], Err *err) {
    Buffer f = {0};
    Sha256 hash;
    print(t, &f);
    sha256_init(&hash);
    sha256_add(&hash, f.data, f.n);
    sha256_hex(&hash, hex);
    int rc = f.failed ? err_set(err, "no memory to tell the tokenizer from others") : 0;
    buffer_free(&f);
    return rc;
}
