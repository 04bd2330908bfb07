/* The fields that say what an answer may be, under the names of every server that has some: each becomes a form, or the
 * strings of "choice", and there is one of them at most. */
#include "base/err.h"
#include "base/json/json_reader.h"
#include "server/api/completions/request_draft.h"

#include <string.h>

/* Notes that the field says it. */
static int claim(const FieldReader *r, const char *name) {
    RequestDraft *d = r->out;
    if (d->form_field[0])
        return api_fail(r->error, 400, NULL, name, "%s and %s both say what the answer may be: give one of them",
                        d->form_field, name);
    snprintf(d->form_field, sizeof d->form_field, "%s", name);
    return 0;
}

int api_take_form(RequestDraft *d, const ApiContext *ctx, const char *name, Form *f, const FormError *why,
                  ApiError *e) {
    CompletionRequest *request = &d->request;
    char where[256];
    if (!f && why->no_memory) return api_no_memory(e);
    if (!f) {
        snprintf(where, sizeof where, "%.100s%s%s", name, why->path[0] && why->path[0] != '[' ? "." : "", why->path);
        return api_fail(e, 400, NULL, where, "%s: %s", where, why->message);
    }
    FormScratch *scratch = form_scratch_new();
    request->walk = scratch ? form_walk_new(f, scratch) : NULL;
    form_scratch_free(scratch);
    form_release(f);
    if (!request->walk) return api_no_memory(e);
    if (form_is_stuck(request->walk))
        return api_fail(e, 400, NULL, name, "%s begins in more than %d ways, the limit", name, FORM_WAYS);
    if (ctx->vocabulary->n == 0)
        return api_fail(e, 400, NULL, name, "%s needs a model with a tokenizer: tokens have no text here", name);
    return 0;
}

static int take_form(const FieldReader *r, const char *name, Form *f, const FormError *why) {
    return api_take_form(r->out, r->context, name, f, why, r->error);
}

static int read_text(const FieldReader *r, const cJSON *item, Form *(*compile)(const char *, size_t, FormError *)) {
    FormError why;
    const char *text = cJSON_GetStringValue(item);
    if (!text) return field_fail(r, item, "a string");
    if (claim(r, r->name)) return -1;
    return take_form(r, r->name, compile(text, strlen(text), &why), &why);
}

int api_regex_read(const FieldReader *r, const cJSON *item) { return read_text(r, item, form_of_regex); }

/* An empty one is none: llama-server's clients send it so. */
int api_grammar_read(const FieldReader *r, const cJSON *item) {
    if (cJSON_IsString(item) && !item->valuestring[0]) return 0;
    return read_text(r, item, form_of_grammar);
}

static int read_schema(const FieldReader *r, const char *name, const cJSON *schema) {
    FormError why;
    return claim(r, name) || take_form(r, name, form_of_schema(schema, &why), &why) ? -1 : 0;
}

/* As it is, or as a text. */
int api_schema_read(const FieldReader *r, const cJSON *item) {
    const ApiLimits *limits = &((const ApiContext *)r->context)->limits;
    Err err;
    if (!cJSON_IsString(item)) return read_schema(r, r->name, item);
    const char *text = item->valuestring;
    cJSON *parsed = json_parse(text, strlen(text), limits->json_depth, (size_t)limits->json_values, &err);
    if (!parsed) return api_fail(r->error, 400, NULL, r->name, "%s: %s", r->name, err.msg);
    int rc = read_schema(r, r->name, parsed);
    cJSON_Delete(parsed);
    return rc;
}

static int any_object(const FieldReader *r, const char *name) {
    FormError why;
    return claim(r, name) || take_form(r, name, form_of_object(&why), &why) ? -1 : 0;
}

int api_json_object_read(const FieldReader *r, const cJSON *item) {
    if (!cJSON_IsBool(item)) return field_fail(r, item, "true or false");
    return cJSON_IsTrue(item) ? any_object(r, r->name) : 0;
}

int api_strings_read(const FieldReader *r, const cJSON *item) {
    return claim(r, r->name) || api_choice_read(r, item) ? -1 : 0;
}

/* ---- "response_format", and "text" of OpenAI's responses ---- */

static int check_members(const FieldReader *r, const char *name, const cJSON *object, const char *const *known) {
    return fields_check_members(object, name, known, r->ignored, r->error);
}

static int read_named_schema(const FieldReader *r, const char *name, const cJSON *item, const char *const *known) {
    char inner[64];
    const cJSON *schema = json_field(item, "schema");
    snprintf(inner, sizeof inner, "%s.schema", name);
    if (!cJSON_IsObject(item)) return api_fail(r->error, 400, NULL, name, "%s must be an object", name);
    if (check_members(r, name, item, known)) return -1;
    if (!schema) return api_fail(r->error, 400, NULL, inner, "%s is missing", inner);
    return read_schema(r, inner, schema);
}

static int bad_type(const FieldReader *r, const char *name, const cJSON *type) {
    char inner[64];
    snprintf(inner, sizeof inner, "%s.type", name);
    return api_fail(r->error, 400, NULL, inner, "%s must be \"text\", \"json_object\" or \"json_schema\", not %s",
                    inner, show_json(type).text);
}

static const char *const of_text[] = {"type", NULL};

int api_response_format_read(const FieldReader *r, const cJSON *item) {
    static const char *const of_schema[] = {"type", "json_schema", NULL}, *const of_object[] = {"type", "schema", NULL},
                             *const inner[] = {"name", "description", "strict", "schema", NULL};
    const cJSON *type = json_field(item, "type"), *schema = json_field(item, "schema");
    if (cJSON_IsNull(schema)) schema = NULL;
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
    if (json_is_text(type, "text")) return check_members(r, r->name, item, of_text);
    if (json_is_text(type, "json_schema") && !schema)
        return check_members(r, r->name, item, of_schema)
                   ? -1
                   : read_named_schema(r, "response_format.json_schema", json_field(item, "json_schema"), inner);
    if (!json_is_text(type, "json_object") && !json_is_text(type, "json_schema")) return bad_type(r, r->name, type);
    if (check_members(r, r->name, item, of_object)) return -1;
    return schema ? read_schema(r, "response_format.schema", schema) : any_object(r, r->name);
}

int api_text_format_read(const FieldReader *r, const cJSON *item) {
    static const char *const known[] = {"format", "verbosity", NULL},
                             name[] = "text.format", *const of_schema[] = {"type",   "name",   "description",
                                                                           "strict", "schema", NULL};
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
    if (check_members(r, r->name, item, known)) return -1;
    const cJSON *format = json_field(item, "format"), *type = json_field(format, "type");
    const cJSON *verbosity = json_field(item, "verbosity");
    if (!json_is_null(verbosity) && !json_is_text(verbosity, "low") && !json_is_text(verbosity, "medium") &&
        !json_is_text(verbosity, "high"))
        return api_fail(r->error, 400, NULL, "text.verbosity",
                        "text.verbosity must be \"low\", \"medium\" or \"high\", not %s", show_json(verbosity).text);
    if (json_is_null(format)) return 0;
    if (json_is_text(type, "json_schema")) return read_named_schema(r, name, format, of_schema);
    if (!json_is_text(type, "json_object") && !json_is_text(type, "text")) return bad_type(r, name, type);
    if (check_members(r, name, format, of_text)) return -1;
    return json_is_text(type, "text") ? 0 : any_object(r, name);
}

/* ---- the tables ---- */

static const Type any_text = {.kind = TYPE_STRING};
static const Type any_member = {.kind = TYPE_MAP, .of = {&any_text}, .schema = "{\"type\":\"object\"}"};
static const Type boolean = {.kind = TYPE_BOOLEAN};
const Type api_pattern_type = {.kind = TYPE_STRING};
const Type api_schema_type = {.kind = TYPE_ONE_OF, .of = {&any_member, &any_text, &boolean}};
#define VARIANT(type, required, others)                                                                                \
    "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"" type "\"}" others "},\"required\":[" required        \
    "],\"additionalProperties\":false}"
#define ANY_SCHEMA "\"schema\":{\"type\":\"object\"}"
const Type api_format_type = {
    .kind = TYPE_MAP,
    .of = {&any_text},
    .schema = "{\"anyOf\":[" VARIANT("text", "\"type\"", "") "," VARIANT(
        "json_object", "\"type\"",
        "," ANY_SCHEMA) "," VARIANT("json_schema", "\"type\",\"json_schema\"",
                                    ",\"json_schema\":{\"type\":\"object\",\"properties\":{" ANY_SCHEMA
                                    "},\"required\":[\"schema\"]}") "]}"};
const Type api_text_format_type = {
    .kind = TYPE_MAP,
    .of = {&any_text},
    .schema = "{\"type\":\"object\",\"properties\":{\"format\":{\"anyOf\":[{\"type\":\"null\"}," VARIANT(
        "text", "\"type\"", "") "," VARIANT("json_object", "\"type\"",
                                            "") "," VARIANT("json_schema", "\"type\",\"schema\"",
                                                            ",\"name\":{},\"description\":{},\"strict\":{}"
                                                            "," ANY_SCHEMA) "]},\"verbosity\":{\"enum\":[\"low\","
                                                                            "\"medium\",\"high\",null]}},"
                                                                            "\"additionalProperties\":false}"};

static const Field structured[] = {
    {FORM_FIELD("json", api_schema_read, &api_schema_type), .help = "As `json_schema`."},
    {FORM_FIELD("json_object", api_json_object_read, &boolean), .help = "True: any JSON object."},
    {FORM_FIELD("regex", api_regex_read, &api_pattern_type), .help = "As `regex`."},
    {FORM_FIELD("choice", api_strings_read, &api_choice_type), .help = "As `choice`."},
    {FORM_FIELD("grammar", api_grammar_read, &api_pattern_type), .help = "As `grammar`."},
};
const FieldList api_structured_fields = {.rows = structured, .n = COUNTOF(structured)};
