#include "tokenizer/tokenizer_config.h"

#include "base/memory.h"
#include "base/text.h"
#include "base/json/json_reader.h"
#include "tokenizer/added.h"
#include "tokenizer/build.h"
#include "tokenizer/chat_files.h"
#include "tokenizer/map.h"

#include <stdlib.h>
#include <string.h>

/* A tokenizer that is being changed. */
typedef struct Changes {
    TokenizerSpec spec;
    TokenText *pieces; /* those of spec, as are added; owned, with room for more */
    AddedToken *added;
    TextMap places; /* text -> place in added */
    bool changed;
} Changes;

/* ---- added tokens ---- */

static void copy_tokens(Changes *c, const Tokenizer *t, int more) {
    TokenizerSpec *s = &c->spec;
    *s = *tokenizer_spec(t);
    c->pieces = xcalloc((size_t)s->n_pieces + (size_t)more, sizeof *c->pieces);
    c->added = xcalloc((size_t)s->n_added + (size_t)more, sizeof *c->added);
    memcpy(c->pieces, s->pieces, (size_t)s->n_pieces * sizeof *c->pieces);
    for (int i = 0; i < s->n_added; i++) {
        c->added[i] = s->added[i];
        *text_map_at(&c->places, s->added[i].text.data, s->added[i].text.n) = i;
    }
    s->pieces = c->pieces;
    s->added = c->added;
}

static bool is_byte(const TokenizerSpec *s, int id) {
    for (int i = 0; i < 256; i++)
        if (s->byte_ids[i] == id) return true;
    return false;
}

/* One more, a piece of the vocabulary or the first id behind it; key: its id. */
static int add_token(Changes *c, const char *key, AddedToken a, Err *err) {
    TokenizerSpec *s = &c->spec;
    char number[16];
    snprintf(number, sizeof number, "%d", a.id = atoi(key));
    const TokenText *piece = a.id >= 0 && a.id < s->n_pieces ? &s->pieces[a.id] : NULL;
    bool known = piece && piece->n == a.text.n && !memcmp(piece->data, a.text.data, a.text.n) && !is_byte(s, a.id);
    if (strcmp(number, key) || (!known && a.id != s->n_pieces))
        return err_set(err,
                       "added_tokens_decoder has %s as \"%.20s\", which cannot be added to the %d of tokenizer.json",
                       show_text(a.text.data, a.text.n).text, key, s->n_pieces);
    if (a.text.n > ADDED_BYTES)
        return err_set(err, "added_tokens_decoder.%.20s.content has %zu bytes, at most %d are allowed", key, a.text.n,
                       ADDED_BYTES);
    s->n_pieces += !known;
    *text_map_at(&c->places, a.text.data, a.text.n) = s->n_added;
    c->added[s->n_added++] = a;
    c->changed = true;
    return 0;
}

/* transformers adds the token to those of tokenizer.json, or puts it in the place of the one that has its text. */
static int take_token(Changes *c, const cJSON *token, Err *err) {
    static const char *const unsupported[] = {"single_word", "lstrip", "rstrip"};
    char where[48];
    snprintf(where, sizeof where, "added_tokens_decoder.%.20s", token->string);
    JsonReader r = {.object = token, .path = where, .foreign = true, .err = err};
    const char *text = cJSON_GetStringValue(json_field(token, "content"));
    if (!text || !*text) return 0;
    AddedToken a = {.text = {.data = text, .n = strlen(text)}, .special = json_take_bool(&r, "special", false)};
    a.normalized = json_take_bool(&r, "normalized", !a.special);
    for (size_t i = 0; i < COUNTOF(unsupported); i++)
        if (json_take_bool(&r, unsupported[i], false))
            json_reader_fail(&r, "%s.%s is true, only false is supported", where, unsupported[i]);
    if (r.failed) return -1;
    int place = text_map_find(&c->places, text, a.text.n);
    if (place < 0) return add_token(c, token->string, a, err);
    AddedToken *was = &c->added[place];
    c->changed |= was->special != a.special || was->normalized != a.normalized;
    was->special = a.special;
    was->normalized = a.normalized;
    return 0;
}

/* ---- what stands around a text ---- */

/* The id of config's token where the flag is true, -1 where it is false; what it was where the file says neither. */
static int flagged(const Changes *c, const cJSON *config, const char *flag, const char *name, int was) {
    const cJSON *set = json_field(config, flag);
    const char *text = chat_token_text(config, name);
    if (!cJSON_IsBool(set)) return was;
    int place = cJSON_IsTrue(set) && text ? text_map_find(&c->places, text, strlen(text)) : -1;
    return place >= 0 ? c->added[place].id : cJSON_IsTrue(set) ? was : -1;
}

/* LlamaTokenizerFast puts tokens around a text by two flags, whatever tokenizer.json says: R1's distillates have their
 * BOS from there. */
static void frame_text(Changes *c, const cJSON *config) {
    static const char *const classes[] = {"LlamaTokenizerFast", "LlamaTokenizer", NULL};
    const char *class = cJSON_GetStringValue(json_field(config, "tokenizer_class"));
    if (!class || !text_is_in(class, classes)) return;
    int bos = flagged(c, config, "add_bos_token", "bos_token", c->spec.bos);
    int tail = flagged(c, config, "add_eos_token", "eos_token", c->spec.tail);
    c->changed |= bos != c->spec.bos || tail != c->spec.tail;
    c->spec.bos = bos;
    c->spec.tail = tail;
}

int tokenizer_config_apply(Tokenizer **t, const char *dir, Err *err) {
    Err why;
    Changes c = {0};
    cJSON *config = chat_tokenizer_config(dir, &why);
    if (!config) return *why.msg ? err_set(err, "%s", why.msg) : 0;
    const cJSON *tokens = json_field(config, "added_tokens_decoder"), *token;
    int rc = 0;
    if (!cJSON_IsObject(tokens) || tokenizer_spec(*t)->style == TOKEN_WORDS) tokens = NULL;
    copy_tokens(&c, *t, cJSON_GetArraySize(tokens));
    cJSON_ArrayForEach(token, tokens) if (rc == 0) rc = take_token(&c, token, &why);
    if (rc) err_set(err, "%s/" TOKENIZER_CONFIG_FILE ": %s", dir, why.msg);
    frame_text(&c, config);
    if (rc == 0 && c.changed) {
        Tokenizer *made = tokenizer_build(&c.spec, err);
        tokenizer_free(*t);
        *t = made;
        rc = made ? 0 : -1;
    }
    text_map_free(&c.places);
    free(c.pieces);
    free(c.added);
    cJSON_Delete(config);
    return rc;
}
