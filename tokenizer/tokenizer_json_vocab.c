#include "base/err.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/added.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer_json_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 1 << 24 };

static TokenText text_of(const char *s) { return (TokenText){.data = s, .n = strlen(s)}; }

/* ---- ids ---- */

/* Entries of model.vocab and added_tokens together: with no holes, no id can reach it. */
static int id_bound(const Reader *r) {
    return cJSON_GetArraySize(json_field(r->model, "vocab")) + cJSON_GetArraySize(json_field(r->root, "added_tokens"));
}

static int read_id(const Reader *r, const cJSON *v, const char *where, const char *name, int bound, int *id) {
    int64_t x;
    if (!json_integer(v, 0, MAX_ID, &x))
        return err_set(r->err, "%s: %s has the id %s, must be an integer in 0..%d", where,
                       show_text(name, strlen(name)).text, show_json(v).text, MAX_ID);
    if (x >= bound)
        return err_set(r->err, "%s: %s has the id %d, but %d tokens leave holes below it", where,
                       show_text(name, strlen(name)).text, (int)x, bound);
    *id = (int)x;
    return 0;
}

static int read_keys(Reader *r, int bound) {
    const cJSON *vocab = json_field(r->model, "vocab");
    if (!cJSON_IsObject(vocab)) return err_set(r->err, "model.vocab is %s, must be an object", show_json(vocab).text);
    for (const cJSON *v = vocab->child; v; v = v->next) {
        TokenText key = text_of(v->string);
        int id = 0;
        if (read_id(r, v, "model.vocab", v->string, bound, &id)) return -1;
        if (key.n == 0) return err_set(r->err, "model.vocab: the piece with the id %d is empty", id);
        if (r->spelling[id].n > 0)
            return err_set(r->err, "model.vocab: %s and %s have the same id %d",
                           show_text(r->spelling[id].data, r->spelling[id].n).text, show_text(key.data, key.n).text,
                           id);
        r->spelling[id] = key;
        *text_map_at(&r->keys, key.data, key.n) = id;
        r->spec.n_pieces = MAX(r->spec.n_pieces, id + 1);
    }
    return 0;
}

/* ---- added tokens ---- */

static int read_added_token(Reader *r, const cJSON *v, int index, int bound, AddedToken *a) {
    static const char *const unsupported[] = {"single_word", "lstrip", "rstrip"};
    char where[40];
    snprintf(where, sizeof where, "added_tokens[%d]", index);
    JsonReader o = {.object = v, .path = where, .err = r->err};
    if (!json_reader_knows(&o, "id content single_word lstrip rstrip normalized special")) return -1;
    const cJSON *content = json_field(v, "content");
    if (!cJSON_IsString(content) || !*content->valuestring)
        return err_set(r->err, "%s.content is %s, must be a text", where, show_json(content).text);
    if (strlen(content->valuestring) > ADDED_BYTES)
        return err_set(r->err, "%s.content has %zu bytes, at most %d are allowed", where, strlen(content->valuestring),
                       ADDED_BYTES);
    a->text = text_of(content->valuestring);
    if (read_id(r, json_field(v, "id"), where, a->text.data, bound, &a->id)) return -1;
    a->special = json_take_bool(&o, "special", JSON_REQUIRED);
    a->normalized = json_take_bool(&o, "normalized", JSON_REQUIRED);
    for (size_t i = 0; i < COUNTOF(unsupported); i++)
        if (json_take_bool(&o, unsupported[i], JSON_REQUIRED))
            json_reader_fail(&o, "%s.%s is true, only false is supported", where, unsupported[i]);
    return o.failed ? -1 : 0;
}

/* The token and the vocabulary must agree on what its id and its text are. */
static int check_added_token(const Reader *r, const AddedToken *a, int index) {
    Shown text = show_text(a->text.data, a->text.n);
    const TokenText *other = &r->spelling[a->id];
    int key_id = text_map_find(&r->keys, a->text.data, a->text.n);
    if (key_id >= 0 && key_id != a->id)
        return err_set(r->err, "added_tokens[%d]: %s has the id %d, but %d in model.vocab", index, text.text, a->id,
                       key_id);
    if (key_id < 0 && other->n > 0)
        return err_set(r->err, "added_tokens[%d]: %s has the id %d, which is %s in model.vocab", index, text.text,
                       a->id, show_text(other->data, other->n).text);
    return 0;
}

static int read_added(Reader *r, int bound) {
    const cJSON *list = json_field(r->root, "added_tokens");
    if (json_is_null(list)) return 0;
    if (!cJSON_IsArray(list)) return err_set(r->err, "added_tokens is %s, must be an array", show_json(list).text);
    TextMap texts = {0};
    int rc = 0;
    r->added = xmalloc((size_t)cJSON_GetArraySize(list) * sizeof *r->added);
    r->spec.added = r->added;
    for (const cJSON *v = list->child; v && rc == 0; v = v->next) {
        int i = r->spec.n_added;
        AddedToken *a = &r->added[i];
        if ((rc = read_added_token(r, v, i, bound, a)) || (rc = check_added_token(r, a, i))) break;
        int *same_text = text_map_at(&texts, a->text.data, a->text.n);
        int same = *same_text >= 0 ? *same_text : r->added_index[a->id];
        if (same >= 0)
            rc = err_set(r->err, "added_tokens[%d] (id %d, %s) repeats added_tokens[%d] (id %d, %s)", i, a->id,
                         show_text(a->text.data, a->text.n).text, same, r->added[same].id,
                         show_text(r->added[same].text.data, r->added[same].text.n).text);
        *same_text = i;
        r->added_index[a->id] = i;
        r->spec.n_added++;
        r->spec.n_pieces = MAX(r->spec.n_pieces, a->id + 1);
    }
    text_map_free(&texts);
    return rc;
}

static int check_holes(const Reader *r) {
    for (int id = 0; id < r->spec.n_pieces; id++)
        if (r->added_index[id] < 0 && r->spelling[id].n == 0)
            return err_set(r->err, "no token has the id %d, but ids go up to %d", id, r->spec.n_pieces - 1);
    return 0;
}

/* ---- spelling -> bytes ---- */

/* The byte that the character at text stands for in GPT-2's alphabet, or -1; *length as utf8_char_length. */
static int alphabet_byte(TokenText text, size_t *length) {
    *length = utf8_char_length(text.data, text.n);
    int c = *length == 1 || *length == 2 ? (int)utf8_get(text.data, *length) : -1;
    if (c >= 256) return c < 256 + 68 ? byte_level_order(188 + c - 256) : -1;
    bool itself = (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xFF && c != 0xAD);
    return itself ? c : -1;
}

/* Bytes of a byte-level key to out; returns how many, 0 when a character is not of the alphabet. */
static size_t alphabet_decode(TokenText key, char *out) {
    size_t n = 0;
    for (size_t i = 0, length; i < key.n; i += length) {
        int byte = alphabet_byte((TokenText){.data = key.data + i, .n = key.n - i}, &length);
        if (byte < 0) return 0;
        out[n++] = (char)byte;
    }
    return n;
}

static int decode_key(Reader *r, int id, char **at) {
    TokenText key = r->spelling[id];
    const AddedToken *added = r->added_index[id] < 0 ? NULL : &r->added[r->added_index[id]];
    size_t n = alphabet_decode(key, *at);
    if (n == 0 && key.n > 0 && !added)
        return err_set(r->err, "model.vocab: %s (id %d) has a character that stands for no byte",
                       show_text(key.data, key.n).text, id);
    if (n > 0 && added && (n != added->text.n || memcmp(*at, added->text.data, n) != 0)) n = 0; /* no piece */
    r->pieces[id] = (TokenText){.data = *at, .n = n};
    *at += n;
    return 0;
}

static int decode_keys(Reader *r) {
    size_t total = 0;
    for (int id = 0; id < r->spec.n_pieces; id++) total += r->spelling[id].n;
    char *at = r->bytes = xmalloc(total);
    r->pieces = xcalloc((size_t)r->spec.n_pieces, sizeof *r->pieces);
    r->spec.pieces = r->pieces;
    for (int id = 0; id < r->spec.n_pieces; id++)
        if (decode_key(r, id, &at)) return -1;
    for (int i = 0; i < 256; i++) r->spec.byte_ids[i] = -1;
    for (int id = 0; id < r->spec.n_pieces; id++)
        if (r->pieces[id].n == 1) r->spec.byte_ids[(unsigned char)r->pieces[id].data[0]] = id;
    for (int i = 0; i < 256; i++)
        if (r->spec.byte_ids[i] < 0)
            return err_set(r->err, "model.vocab has no piece for the byte 0x%02X", (unsigned)i);
    return 0;
}

static int find_byte_pieces(Reader *r) {
    r->spec.pieces = r->spelling;
    for (unsigned i = 0; i < 256; i++) {
        char key[8];
        snprintf(key, sizeof key, "<0x%02X>", i);
        int id = text_map_find(&r->keys, key, 6);
        if (id < 0) return err_set(r->err, "model.byte_fallback is true, but model.vocab has no piece \"%s\"", key);
        if (r->added_index[id] >= 0)
            return err_set(r->err, "added_tokens[%d]: \"%s\" is a byte piece", r->added_index[id], key);
        r->spec.byte_ids[i] = id;
    }
    return 0;
}

int tokenizer_read_vocabulary(Reader *r) {
    int bound = id_bound(r);
    r->spelling = xcalloc((size_t)bound, sizeof *r->spelling);
    r->added_index = xmalloc((size_t)bound * sizeof *r->added_index);
    for (int i = 0; i < bound; i++) r->added_index[i] = -1;
    if (read_keys(r, bound) || read_added(r, bound) || check_holes(r)) return -1;
    if (r->spec.style != TOKEN_WORDS) return r->spec.style == TOKEN_BYTE_LEVEL ? decode_keys(r) : find_byte_pieces(r);
    r->spec.pieces = r->spelling;
    if (r->spec.n_added)
        return err_set(r->err, "added_tokens has %d elements, but model.type is WordLevel", r->spec.n_added);
    return 0;
}

/* ---- merges ---- */

/* "left right" or ["left", "right"] */
static int split_merge(const Reader *r, const cJSON *v, int rank, TokenText *left, TokenText *right) {
    if (cJSON_IsString(v)) {
        const char *space = strchr(v->valuestring, ' ');
        if (!space || space == v->valuestring || !space[1] || strchr(space + 1, ' '))
            return err_set(r->err, "model.merges[%d] is %s, must be two pieces with one space between", rank,
                           show_json(v).text);
        *left = (TokenText){.data = v->valuestring, .n = (size_t)(space - v->valuestring)};
        *right = text_of(space + 1);
        return 0;
    }
    const cJSON *a = cJSON_IsArray(v) ? v->child : NULL, *b = a ? a->next : NULL;
    if (!cJSON_IsString(a) || !cJSON_IsString(b) || b->next)
        return err_set(r->err, "model.merges[%d] is %s, must be \"left right\" or [\"left\", \"right\"]", rank,
                       cJSON_IsArray(v) ? "another array" : show_json(v).text);
    *left = text_of(a->valuestring);
    *right = text_of(b->valuestring);
    return 0;
}

static int find_key(const Reader *r, TokenText key, int rank, int *id) {
    *id = text_map_find(&r->keys, key.data, key.n);
    if (*id < 0)
        return err_set(r->err, "model.merges[%d]: %s is not in model.vocab", rank, show_text(key.data, key.n).text);
    if (r->spec.pieces[*id].n == 0)
        return err_set(r->err, "model.merges[%d]: %s is no byte-level piece", rank, show_text(key.data, key.n).text);
    return 0;
}

static int read_merge(const Reader *r, const cJSON *v, int rank, TokenMerge *m) {
    TokenText left, right;
    if (split_merge(r, v, rank, &left, &right) || find_key(r, left, rank, &m->left) ||
        find_key(r, right, rank, &m->right))
        return -1;
    TokenText both = {.n = left.n + right.n};
    char *data = xmalloc(both.n);
    both.data = data;
    memcpy(mempcpy(data, left.data, left.n), right.data, right.n);
    int rc = find_key(r, both, rank, &m->result);
    free(data);
    return rc;
}

int tokenizer_read_merges(Reader *r) {
    const cJSON *list = json_field(r->model, "merges");
    if (r->spec.style == TOKEN_WORDS) return 0;
    if (!cJSON_IsArray(list)) return err_set(r->err, "model.merges is %s, must be an array", show_json(list).text);
    PairMap seen = {0};
    int rc = 0;
    r->merges = xmalloc((size_t)cJSON_GetArraySize(list) * sizeof *r->merges);
    r->spec.merges = r->merges;
    for (const cJSON *v = list->child; v; v = v->next) {
        int rank = r->spec.n_merges++;
        TokenMerge *m = &r->merges[rank];
        if ((rc = read_merge(r, v, rank, m))) break;
        int *first = pair_map_at(&seen, m->left, m->right);
        if (*first >= 0) {
            rc = err_set(r->err, "model.merges[%d] (%s + %s) repeats model.merges[%d]", rank,
                         show_text(r->spelling[m->left].data, r->spelling[m->left].n).text,
                         show_text(r->spelling[m->right].data, r->spelling[m->right].n).text, *first);
            break;
        }
        *first = rank;
    }
    pair_map_free(&seen);
    return rc;
}
