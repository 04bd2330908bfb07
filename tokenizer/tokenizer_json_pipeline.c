#include "base/err.h"
#include "base/json/json.h"
#include "tokenizer/tokenizer_json_impl.h"

#include <stdlib.h>
#include <string.h>

static int check_type(const cJSON *v, const char *where, const char *type, const char *keys, Err *err) {
    const cJSON *found = json_field(v, "type");
    if (!json_is_text(found, type))
        return err_set(err, "%s.type is %s, only \"%s\" is supported here", where,
                       show_json(cJSON_IsObject(v) ? found : v).text, type);
    JsonReader o = {.object = v, .path = where, .err = err};
    return json_reader_knows(&o, keys) ? 0 : -1;
}

static int check_text(const cJSON *o, const char *where, const char *name, const char *text, Err *err) {
    const cJSON *v = json_field(o, name);
    if (json_is_text(v, text)) return 0;
    return err_set(err, "%s.%s is %s, only \"%s\" is supported", where, name, show_json(v).text, text);
}

/* The elements of {"type": "Sequence", list: [...]}, at least `least` and at most `most` of them. */
static const cJSON *sequence(const cJSON *v, const char *where, const char *list, int least, int most, Err *err) {
    char keys[64];
    snprintf(keys, sizeof keys, "type %s", list);
    if (check_type(v, where, "Sequence", keys, err)) return NULL;
    const cJSON *items = json_field(v, list);
    int n = cJSON_GetArraySize(items);
    if (cJSON_IsArray(items) && n >= least && n <= most) return items->child;
    err_set(err, "%s.%s has %d elements, only %d to %d are supported", where, list, n, least, most);
    return NULL;
}

static int check_replace(const cJSON *v, const char *where, const char *from, const char *to, Err *err) {
    if (check_type(v, where, "Replace", "type pattern content", err)) return -1;
    const cJSON *pattern = json_field(v, "pattern");
    if (!json_is_text(json_field(pattern, "String"), from) || cJSON_GetArraySize(pattern) != 1)
        return err_set(err, "%s.pattern is not {\"String\": \"%s\"}, the only one supported", where, from);
    return check_text(v, where, "content", to, err);
}

/* ---- byte level ---- */

#define BYTE_LEVEL_KEYS "type add_prefix_space trim_offsets use_regex"

static int add_words(Reader *r, const char *pattern, const char *where) {
    if (r->spec.n_words == WORD_PATTERNS_MAX)
        return err_set(r->err, "%s: only %d expressions after one another are supported", where, WORD_PATTERNS_MAX);
    r->spec.words[r->spec.n_words++] = pattern;
    return 0;
}

static int read_byte_level_words(Reader *r, const cJSON *v, const char *where, bool alone) {
    JsonReader o = {.object = v, .path = where, .err = r->err};
    if (check_type(v, where, "ByteLevel", BYTE_LEVEL_KEYS, r->err)) return -1;
    bool prefix_space = json_take_bool(&o, "add_prefix_space", JSON_REQUIRED);
    bool regex = json_take_bool(&o, "use_regex", true);
    if (o.failed) return -1;
    if (prefix_space && !alone)
        return err_set(r->err, "%s.add_prefix_space is true, only false is supported in a sequence", where);
    r->spec.prepend = prefix_space ? PREPEND_ALWAYS : PREPEND_NEVER;
    return regex ? add_words(r, GPT2_WORDS, where) : 0;
}

static int read_split(Reader *r, const cJSON *v, const char *where) {
    const cJSON *pattern = json_field(v, "pattern"), *regex = json_field(pattern, "Regex");
    JsonReader o = {.object = v, .path = where, .err = r->err};
    if (!json_reader_knows(&o, "type pattern behavior invert") || check_text(v, where, "behavior", "Isolated", r->err))
        return -1;
    bool invert = json_take_bool(&o, "invert", false);
    if (o.failed) return -1;
    if (invert) return err_set(r->err, "%s.invert is true, only false is supported", where);
    if (!cJSON_IsString(regex) || regex->next || regex->prev != regex)
        return err_set(r->err, "%s.pattern is not {\"Regex\": ...}, the only form supported", where);
    return add_words(r, regex->valuestring, where);
}

static int read_digits(Reader *r, const cJSON *v, const char *where) {
    JsonReader o = {.object = v, .path = where, .err = r->err};
    bool each = json_reader_knows(&o, "type individual_digits") && json_take_bool(&o, "individual_digits", false);
    if (o.failed) return -1;
    return add_words(r, each ? "\\p{N}" : "\\p{N}+", where);
}

/* One ByteLevel, or a sequence of Split and Digits with ByteLevel at its end. */
static int read_words(Reader *r, const cJSON *pre) {
    if (!json_is_text(json_field(pre, "type"), "Sequence")) return read_byte_level_words(r, pre, "pre_tokenizer", true);
    const cJSON *v = sequence(pre, "pre_tokenizer", "pretokenizers", 1, WORD_PATTERNS_MAX + 1, r->err);
    if (!v) return -1;
    for (int i = 0; v->next; v = v->next, i++) {
        char where[48];
        snprintf(where, sizeof where, "pre_tokenizer.pretokenizers[%d]", i);
        const cJSON *type = json_field(v, "type");
        if (json_is_text(type, "Split") ? read_split(r, v, where)
            : json_is_text(type, "Digits")
                ? read_digits(r, v, where)
                : err_set(r->err, "%s.type is %s, only \"Split\" and \"Digits\" are supported before the last", where,
                          show_json(type).text))
            return -1;
    }
    return read_byte_level_words(r, v, "the last of pre_tokenizer.pretokenizers", false);
}

/* null, or DeepSeek's sequence of none. */
static bool is_no_normalizer(const cJSON *v) {
    const cJSON *steps = json_field(v, "normalizers");
    return json_is_null(v) || (json_is_text(json_field(v, "type"), "Sequence") && cJSON_GetArraySize(v) == 2 &&
                               cJSON_IsArray(steps) && !steps->child);
}

static int read_byte_level(Reader *r) {
    const cJSON *normalizer = json_field(r->root, "normalizer"), *form = json_field(normalizer, "type");
    r->spec.nfc = json_is_text(form, "NFC");
    if (!is_no_normalizer(normalizer) && !r->spec.nfc)
        return err_set(r->err, "normalizer is %s, only null and \"NFC\" are supported with a byte-level vocabulary",
                       show_json(cJSON_IsObject(normalizer) ? form : normalizer).text);
    if (r->spec.nfc && check_type(normalizer, "normalizer", "NFC", "type", r->err)) return -1;
    if (read_words(r, json_field(r->root, "pre_tokenizer"))) return -1;
    return check_type(json_field(r->root, "decoder"), "decoder", "ByteLevel", BYTE_LEVEL_KEYS, r->err);
}

/* ---- SentencePiece ---- */

static int read_normalizer(Reader *r, const cJSON *normalizer) {
    const cJSON *first = sequence(normalizer, "normalizer", "normalizers", 2, 2, r->err);
    if (!first || check_type(first, "normalizer.normalizers[0]", "Prepend", "type prepend", r->err) ||
        check_text(first, "normalizer.normalizers[0]", "prepend", SPACE_MARK, r->err))
        return -1;
    r->spec.prepend = PREPEND_NORMALIZER;
    return check_replace(first->next, "normalizer.normalizers[1]", " ", SPACE_MARK, r->err);
}

static int read_metaspace(Reader *r, const cJSON *pre) {
    static const char *const schemes[] = {
        [PREPEND_NEVER] = "never", [PREPEND_FIRST] = "first", [PREPEND_ALWAYS] = "always"};
    JsonReader o = {.object = pre, .path = "pre_tokenizer", .err = r->err};
    if (check_type(pre, "pre_tokenizer", "Metaspace", "type replacement prepend_scheme add_prefix_space str_rep split",
                   r->err) ||
        check_text(pre, "pre_tokenizer", "replacement", SPACE_MARK, r->err))
        return -1;
    bool prefix_space = json_take_bool(&o, "add_prefix_space", true);
    r->spec.split = json_take_bool(&o, "split", true);
    if (o.failed) return -1;
    const cJSON *scheme = json_field(pre, "prepend_scheme");
    r->spec.prepend = prefix_space ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!scheme) return 0;
    for (size_t i = 0; i < COUNTOF(schemes); i++) {
        if (!json_is_text(scheme, schemes[i])) continue;
        r->spec.prepend = (TokenPrepend)i;
        if (prefix_space || i == PREPEND_NEVER) return 0;
        return err_set(r->err, "pre_tokenizer.prepend_scheme is \"%s\", but add_prefix_space is false", schemes[i]);
    }
    return err_set(r->err, "pre_tokenizer.prepend_scheme is %s, must be \"first\", \"always\" or \"never\"",
                   show_json(scheme).text);
}

static int read_strip(Reader *r, const cJSON *v) {
    int64_t start, stop;
    if (check_type(v, "decoder.decoders[3]", "Strip", "type content start stop", r->err) ||
        check_text(v, "decoder.decoders[3]", "content", " ", r->err))
        return -1;
    const cJSON *from = json_field(v, "start"), *to = json_field(v, "stop");
    if (!json_integer(from, 0, 1, &start) || !json_integer(to, 0, 0, &stop))
        return err_set(r->err, "decoder.decoders[3] strips start %s and stop %s, only 0 or 1 and 0 are supported",
                       show_json(from).text, show_json(to).text);
    r->spec.strip_space = start == 1;
    return 0;
}

static int read_sentence_decoder(Reader *r) {
    const cJSON *v = sequence(json_field(r->root, "decoder"), "decoder", "decoders", 3, 4, r->err);
    if (!v || check_replace(v, "decoder.decoders[0]", SPACE_MARK, " ", r->err) ||
        check_type(v->next, "decoder.decoders[1]", "ByteFallback", "type", r->err) ||
        check_type(v->next->next, "decoder.decoders[2]", "Fuse", "type", r->err))
        return -1;
    const cJSON *strip = v->next->next->next;
    return strip ? read_strip(r, strip) : 0;
}

static int read_sentence_piece(Reader *r) {
    const cJSON *normalizer = json_field(r->root, "normalizer"), *pre = json_field(r->root, "pre_tokenizer");
    if (json_is_null(normalizer) == json_is_null(pre))
        return err_set(r->err, "normalizer is %s and pre_tokenizer is %s; model.byte_fallback wants one of them",
                       show_json(normalizer).text, show_json(pre).text);
    if (json_is_null(pre) ? read_normalizer(r, normalizer) : read_metaspace(r, pre)) return -1;
    return read_sentence_decoder(r);
}

/* ---- words ---- */

static int read_word_level(Reader *r) {
    const cJSON *normalizer = json_field(r->root, "normalizer"), *decoder = json_field(r->root, "decoder");
    r->spec.lowercase = !json_is_null(normalizer);
    if (r->spec.lowercase && check_type(normalizer, "normalizer", "Lowercase", "type", r->err)) return -1;
    if (!json_is_null(decoder))
        return err_set(r->err, "decoder is %s, only null is supported with model.type WordLevel",
                       show_json(decoder).text);
    return check_type(json_field(r->root, "pre_tokenizer"), "pre_tokenizer", "WhitespaceSplit", "type", r->err);
}

int tokenizer_read_pipeline(Reader *r) {
    if (r->spec.style == TOKEN_WORDS) return read_word_level(r);
    return r->spec.style == TOKEN_BYTE_LEVEL ? read_byte_level(r) : read_sentence_piece(r);
}

/* ---- post-processor ---- */

/* {"id": name, "ids": [id], "tokens": [...]} */
static int read_template_token(Reader *r, const cJSON *template, const cJSON *element, int *token) {
    int64_t id = -1;
    if (!element) return 0;
    const cJSON *name = json_field(element, "id");
    const cJSON *ids = cJSON_IsString(name)
                           ? json_field(json_field(json_field(template, "special_tokens"), name->valuestring), "ids")
                           : NULL;
    if (!cJSON_IsArray(ids) || cJSON_GetArraySize(ids) != 1 || !json_integer(ids->child, 0, r->spec.n_pieces - 1, &id))
        return err_set(r->err, "post_processor.special_tokens: %s does not name one id below %d", show_json(name).text,
                       r->spec.n_pieces);
    *token = (int)id;
    return 0;
}

/* The template of a single text: the text, with a token in front of it, behind it, or both. */
static int read_template(Reader *r, const cJSON *v) {
    if (check_type(v, "post_processor", "TemplateProcessing", "type single pair special_tokens", r->err)) return -1;
    const cJSON *single = json_field(v, "single"), *text = cJSON_IsArray(single) ? single->child : NULL;
    const cJSON *front = json_field(text, "SpecialToken");
    if (front) text = text->next;
    const cJSON *last = text ? text->next : NULL, *behind = json_field(last, "SpecialToken");
    bool only = !last || (behind && !last->next);
    if (!only || !json_is_text(json_field(json_field(text, "Sequence"), "id"), "A"))
        return err_set(r->err,
                       "post_processor.single has %d elements, only A is supported, with a token in front of "
                       "it, behind it, or both",
                       cJSON_GetArraySize(single));
    return read_template_token(r, v, front, &r->spec.bos) || read_template_token(r, v, behind, &r->spec.tail) ? -1 : 0;
}

/* ByteLevel moves offsets, which we do not report. */
static int read_processor(Reader *r, const cJSON *v) {
    return json_is_text(json_field(v, "type"), "ByteLevel") ? 0 : read_template(r, v);
}

int tokenizer_read_post_processor(Reader *r) {
    const cJSON *v = json_field(r->root, "post_processor");
    if (json_is_null(v)) return 0;
    if (!json_is_text(json_field(v, "type"), "Sequence")) return read_processor(r, v);
    const cJSON *first = sequence(v, "post_processor", "processors", 1, 2, r->err);
    if (!first) return -1;
    return read_processor(r, first) || (first->next && read_processor(r, first->next)) ? -1 : 0;
}
