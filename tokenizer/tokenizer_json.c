#include "tokenizer/tokenizer_json.h"

#include "base/files.h"
#include "base/err.h"
#include "base/json/json.h"
#include "tokenizer/tokenizer_json_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 256 << 20, MAX_DEPTH = 32, MAX_VALUES = 1 << 23 };

/* What calls of transformers left behind: a limit of their batches, which no later call there keeps either. */
static int check_batching(const Reader *r, const char *name) {
    const cJSON *v = json_field(r->root, name);
    if (json_is_null(v) || cJSON_IsObject(v)) return 0;
    return err_set(r->err, "%s is %s, must be an object or null", name, show_json(v).text);
}

static int check_empty_text(const Reader *r, const char *name) {
    const cJSON *v = json_field(r->model, name);
    if (json_is_null(v) || json_is_text(v, "")) return 0;
    return err_set(r->err, "model.%s is %s, only \"\" is supported", name, show_json(v).text);
}

static int read_bpe_header(Reader *r) {
    JsonReader m = {.object = r->model, .path = "model", .err = r->err};
    if (!json_reader_knows(&m, "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
                               "byte_fallback ignore_merges vocab merges"))
        return -1;
    const cJSON *dropout = json_field(r->model, "dropout");
    if (!json_is_null(dropout) && !(cJSON_IsNumber(dropout) && fpclassify(dropout->valuedouble) == FP_ZERO))
        return err_set(r->err, "model.dropout is %s, only null is supported", show_json(dropout).text);
    if (check_empty_text(r, "continuing_subword_prefix") || check_empty_text(r, "end_of_word_suffix")) return -1;
    json_take_bool(&m, "fuse_unk", false); /* nothing is unknown */
    r->spec.style = json_take_bool(&m, "byte_fallback", false) ? TOKEN_SENTENCE_PIECE : TOKEN_BYTE_LEVEL;
    r->spec.ignore_merges = json_take_bool(&m, "ignore_merges", false);
    return m.failed ? -1 : 0;
}

static int read_model_header(Reader *r) {
    const cJSON *type = json_field(r->model, "type");
    if (json_is_text(type, "WordLevel")) {
        r->spec.style = TOKEN_WORDS;
        JsonReader m = {.object = r->model, .path = "model", .err = r->err};
        return json_reader_knows(&m, "type vocab unk_token") ? 0 : -1;
    }
    if (type && !json_is_text(type, "BPE"))
        return err_set(r->err, "model.type is %s, only \"BPE\" and \"WordLevel\" are supported", show_json(type).text);
    return read_bpe_header(r);
}

/* Every byte of a BPE vocabulary has a piece, so that its unknown token is never used; it must only exist. */
static int check_unk_token(Reader *r) {
    const cJSON *unk = json_field(r->model, "unk_token");
    if (json_is_null(unk) && r->spec.style != TOKEN_WORDS) return 0;
    if (!cJSON_IsString(unk))
        return err_set(r->err, "model.unk_token is %s, must be a string%s", show_json(unk).text,
                       r->spec.style == TOKEN_WORDS ? "" : " or null");
    r->spec.unknown = text_map_find(&r->keys, unk->valuestring, strlen(unk->valuestring));
    if (r->spec.unknown >= 0) return 0;
    return err_set(r->err, "model.unk_token is %s, which is not in model.vocab", show_json(unk).text);
}

static int read_all(Reader *r) {
    JsonReader file = {.object = r->root, .path = "", .err = r->err};
    if (!json_reader_knows(&file, "version truncation padding added_tokens normalizer pre_tokenizer post_processor "
                                  "decoder model"))
        return -1;
    const cJSON *version = json_field(r->root, "version");
    if (version && !json_is_text(version, "1.0"))
        return err_set(r->err, "version is %s, only \"1.0\" is supported", show_json(version).text);
    r->model = json_field(r->root, "model");
    return check_batching(r, "truncation") || check_batching(r, "padding") || read_model_header(r) ||
                   tokenizer_read_pipeline(r) || tokenizer_read_vocabulary(r) || tokenizer_read_merges(r) ||
                   check_unk_token(r) || tokenizer_read_post_processor(r)
               ? -1
               : 0;
}

int tokenizer_json_parse(Tokenizer **out, const char *text, size_t n, Err *err) {
    cJSON *root = json_parse(text, n, MAX_DEPTH, MAX_VALUES, err);
    if (!root) return -1;
    Reader r = {.root = root, .spec = {.bos = -1, .tail = -1}, .err = err};
    int rc = read_all(&r);
    if (rc == 0) {
        *out = tokenizer_build(&r.spec, err);
        rc = *out ? 0 : -1;
    }
    text_map_free(&r.keys);
    free(r.spelling);
    free(r.added_index);
    free(r.pieces);
    free(r.bytes);
    free(r.added);
    free(r.merges);
    cJSON_Delete(root);
    return rc;
}

int tokenizer_json_load(Tokenizer **out, const char *path, Err *err) {
    size_t n;
    char *text = file_read(path, MAX_FILE, &n, err);
    if (!text) return -1;
    Err inner;
    int rc = tokenizer_json_parse(out, text, n, &inner);
    if (rc) err_set(err, "%s: %s", path, inner.msg);
    free(text);
    return rc;
}
