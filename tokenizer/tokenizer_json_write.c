#include "base/atomic_file.h"
#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static void put_escaped(FILE *f, TokenText text) {
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < ' ')
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
}

static void put_text(FILE *f, TokenText text) {
    fputc('"', f);
    put_escaped(f, text);
    fputc('"', f);
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

static void put_added(FILE *f, const TokenizerSpec *s) {
    fputs("  \"added_tokens\": [", f);
    for (int i = 0; i < s->n_added; i++) {
        const AddedToken *a = &s->added[i];
        fprintf(f, "%s\n    {\n      \"id\": %d,\n      \"content\": ", i ? "," : "", a->id);
        put_text(f, a->text);
        fprintf(f,
                ",\n      \"single_word\": false,\n      \"lstrip\": false,\n      \"rstrip\": false,\n"
                "      \"normalized\": %s,\n      \"special\": %s\n    }",
                truth(a->normalized), truth(a->special));
    }
    fputs(s->n_added ? "\n  ],\n" : "],\n", f);
}

#define REPLACE(from, to) "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"

static void put_normalizer(FILE *f, const TokenizerSpec *s) {
    if (s->lowercase)
        fputs("  \"normalizer\": {\"type\": \"Lowercase\"},\n", f);
    else if (s->style == TOKEN_SENTENCE_PIECE && s->prepend == PREPEND_NORMALIZER)
        fputs("  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [\n"
              "    {\"type\": \"Prepend\", \"prepend\": \"" SPACE_MARK "\"},\n"
              "    " REPLACE(" ", SPACE_MARK) "\n  ]},\n",
              f);
    else
        fputs(s->nfc ? "  \"normalizer\": {\"type\": \"NFC\"},\n" : "  \"normalizer\": null,\n", f);
}

static void put_byte_level_words(FILE *f, const TokenizerSpec *s) {
    static const char byte_level[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, \"use_regex\": %s}";
    bool gpt2 = s->n_words == 1 && strcmp(s->words[0], GPT2_WORDS) == 0;
    fputs("  \"pre_tokenizer\": ", f);
    if (gpt2 || s->n_words == 0) {
        fprintf(f, byte_level, truth(s->prepend == PREPEND_ALWAYS), truth(gpt2));
    } else {
        fputs("{\"type\": \"Sequence\", \"pretokenizers\": [\n", f);
        for (int i = 0; i < s->n_words; i++) {
            fputs("    {\"type\": \"Split\", \"pattern\": {\"Regex\": ", f);
            put_text(f, (TokenText){.data = s->words[i], .n = strlen(s->words[i])});
            fputs("}, \"behavior\": \"Isolated\", \"invert\": false},\n", f);
        }
        fputs("    ", f);
        fprintf(f, byte_level, "false", "false");
        fputs("\n  ]}", f);
    }
    fputs(",\n", f);
}

static void put_pre_tokenizer(FILE *f, const TokenizerSpec *s) {
    static const char *const schemes[] = {
        [PREPEND_NEVER] = "never", [PREPEND_FIRST] = "first", [PREPEND_ALWAYS] = "always"};
    if (s->style == TOKEN_WORDS)
        fputs("  \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"},\n", f);
    else if (s->style == TOKEN_BYTE_LEVEL)
        put_byte_level_words(f, s);
    else if (s->prepend == PREPEND_NORMALIZER)
        fputs("  \"pre_tokenizer\": null,\n", f);
    else
        fprintf(f,
                "  \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" SPACE_MARK "\", "
                "\"prepend_scheme\": \"%s\", \"split\": %s},\n",
                schemes[s->prepend], truth(s->split));
}

static void put_post_processor(FILE *f, const TokenizerSpec *s, const TokenText *keys) {
    if (s->bos < 0) {
        fputs("  \"post_processor\": null,\n", f);
        return;
    }
    fputs("  \"post_processor\": {\"type\": \"TemplateProcessing\",\n    \"single\": [{\"SpecialToken\": {\"id\": ", f);
    put_text(f, keys[s->bos]);
    fputs(", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n"
          "    \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": "
          "1}}],\n"
          "    \"special_tokens\": {",
          f);
    put_text(f, keys[s->bos]);
    fputs(": {\"id\": ", f);
    put_text(f, keys[s->bos]);
    fprintf(f, ", \"ids\": [%d], \"tokens\": [", s->bos);
    put_text(f, keys[s->bos]);
    fputs("]}}\n  },\n", f);
}

static void put_decoder(FILE *f, const TokenizerSpec *s) {
    if (s->style == TOKEN_WORDS)
        fputs("  \"decoder\": null,\n", f);
    else if (s->style == TOKEN_BYTE_LEVEL)
        fputs("  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
              "\"use_regex\": true},\n",
              f);
    else
        fprintf(
            f,
            "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
            "    " REPLACE(SPACE_MARK, " ") ",\n    {\"type\": \"ByteFallback\"},\n    {\"type\": \"Fuse\"}%s\n  ]},\n",
            s->strip_space ? ",\n    {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}" : "");
}

/* GPT-2's alphabet has no space, so the older form serves, which every reader knows. */
static void put_merge(FILE *f, const TokenizerSpec *s, TokenText left, TokenText right) {
    if (s->style == TOKEN_BYTE_LEVEL) {
        fputc('"', f);
        put_escaped(f, left);
        fputc(' ', f);
        put_escaped(f, right);
        fputc('"', f);
    } else {
        fputc('[', f);
        put_text(f, left);
        fputs(", ", f);
        put_text(f, right);
        fputc(']', f);
    }
}

static void put_vocabulary(FILE *f, const TokenizerSpec *s, const TokenText *keys) {
    fputs("    \"vocab\": {", f);
    for (int id = 0; id < s->n_pieces; id++) {
        fputs(id ? ",\n      " : "\n      ", f);
        put_text(f, keys[id]);
        fprintf(f, ": %d", id);
    }
    fputs("\n    }", f);
}

static void put_word_level(FILE *f, const TokenizerSpec *s, const TokenText *keys) {
    fputs("  \"model\": {\n    \"type\": \"WordLevel\",\n    \"unk_token\": ", f);
    put_text(f, keys[s->unknown]);
    fputs(",\n", f);
    put_vocabulary(f, s, keys);
    fputs("\n  }\n}\n", f);
}

static void put_bpe(FILE *f, const TokenizerSpec *s, const TokenText *keys) {
    fprintf(f,
            "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
            "    \"continuing_subword_prefix\": \"\",\n    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": false,\n"
            "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
            truth(s->style == TOKEN_SENTENCE_PIECE), truth(s->ignore_merges));
    put_vocabulary(f, s, keys);
    fputs(",\n    \"merges\": [", f);
    for (int rank = 0; rank < s->n_merges; rank++) {
        fputs(rank ? ",\n      " : "\n      ", f);
        put_merge(f, s, keys[s->merges[rank].left], keys[s->merges[rank].right]);
    }
    fputs(s->n_merges ? "\n    ]\n  }\n}\n" : "]\n  }\n}\n", f);
}

int tokenizer_json_save(const Tokenizer *t, const char *path, Err *err) {
    const TokenizerSpec *s = tokenizer_spec(t);
    TokenText *keys = xmalloc((size_t)s->n_pieces * sizeof *keys);
    char *spelt = spell_pieces(s, keys), *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    BUG_ON(!f);
    fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n", f);
    put_added(f, s);
    put_normalizer(f, s);
    put_pre_tokenizer(f, s);
    put_post_processor(f, s, keys);
    put_decoder(f, s);
    (s->style == TOKEN_WORDS ? put_word_level : put_bpe)(f, s, keys);
    BUG_ON(fclose(f));
    int rc = file_write(path, text, n, err);
    free(text);
    free(spelt);
    free(keys);
    return rc;
}
