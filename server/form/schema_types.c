/* Numbers, strings and arrays of a schema. */
#include "server/form/regex.h"
#include "server/form/schema.h"

#include "base/json/json_reader.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

typedef struct Bound {
    int64_t value;
    bool open;
} Bound;

/* The narrower one of what two keywords say; `sign` 1: a lower bound. */
static int read_bound(SchemaReader *r, const cJSON *schema, const char *closed, const char *open, bool integer,
                      int sign, const SchemaPath *path, Bound *b) {
    const char *const names[] = {closed, open};
    for (int i = 0; i < 2; i++) {
        const cJSON *item = schema_keyword(r, schema, names[i]);
        SchemaPath here = {path, names[i], 0};
        double x = item ? item->valuedouble : 0;
        bool exclusive = i == 1;
        if (!item) continue;
        if (!cJSON_IsNumber(item)) return schema_fail(r, &here, "must be a number, not %s", show_json(item).text);
        if (integer && x != floor(x)) { /* the next integer inwards is a bound, and among them */
            x = sign > 0 ? ceil(x) : floor(x);
            exclusive = false;
        }
        if (x != floor(x)) return schema_fail(r, &here, "must be an integer, not %s", show_json(item).text);
        double most = exclusive && !integer ? JSON_OPEN : 9007199254740991;
        if (fabs(x) > most) return schema_fail(r, &here, "must be between %.0f and %.0f", -most, most);
        Bound next = {(int64_t)x + (integer && exclusive ? sign : 0), !integer && exclusive};
        int64_t inwards = sign * (next.value - b->value);
        if (inwards > 0 || (inwards == 0 && next.open)) *b = next;
    }
    return 0;
}

int schema_number(SchemaReader *r, const cJSON *schema, bool integer, const SchemaPath *path) {
    Bound low = {-JSON_INTEGERS, false}, high = {JSON_INTEGERS, false};
    if (read_bound(r, schema, "minimum", "exclusiveMinimum", integer, 1, path, &low) ||
        read_bound(r, schema, "maximum", "exclusiveMaximum", integer, -1, path, &high))
        return -1;
    if (low.value == -JSON_INTEGERS && high.value == JSON_INTEGERS) return integer ? r->json.integer : r->json.number;
    if (integer) return json_node_integers(r->form, low.value, high.value);
    return json_node_numbers(r->form, low.value, low.open, high.value, high.open);
}

/* ---- strings ---- */

#define DAYS "(?:0[1-9]|1[0-9]|2[0-8])"
#define DATE                                                                                                           \
    "(?:\\d{4}-(?:(?:0[1-9]|1[0-2])-" DAYS "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"                      \
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define HOUR "(?:[01]\\d|2[0-3])"
#define TIME HOUR ":[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" HOUR ":[0-5]\\d)"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define WORD "[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?"

static const char *pattern_of_format(const char *format) {
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", DATE},
        {"time", TIME},
        {"date-time", DATE "T" TIME},
        {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
        {"ipv4", BYTE "(?:\\." BYTE "){3}"},
        {"hostname", WORD "(?:\\." WORD "){0,4}"},
        {"email", "[A-Za-z0-9_]{1,32}(?:[.+-][A-Za-z0-9_]{1,16}){0,3}@" WORD "(?:\\." WORD "){1,4}"},
        {"uri", "https?://" WORD "(?:\\." WORD "){1,4}(?::[1-9]\\d{1,3})?(?:/[A-Za-z0-9._~-]{0,64}){0,8}"
                "(?:\\?[A-Za-z0-9._~=&-]{0,64})?(?:#[A-Za-z0-9._~-]{0,64})?"},
    };
    for (size_t i = 0; i < COUNTOF(formats); i++)
        if (!strcmp(format, formats[i].name)) return formats[i].pattern;
    return NULL;
}

/* What tells programs how to handle a string, and not which strings there are. */
static bool says_nothing(const cJSON *format) {
    static const char *const names[] = {"password", "binary", "path", "file-path", "directory-path", NULL};
    return cJSON_IsString(format) && text_is_in(format->valuestring, names);
}

static int quoted(Form *f, int inner) {
    int mark = graph_string(f, "\"");
    return graph_then(f, mark, graph_then(f, inner, mark));
}

static int by_format(SchemaReader *r, const cJSON *format, const SchemaPath *path) {
    const char *name = cJSON_GetStringValue(format), *pattern = name ? pattern_of_format(name) : NULL;
    if (!pattern) return schema_fail(r, path, "%s is not supported", show_json(format).text);
    int node = regex_node(r->form, pattern, strlen(pattern), false, NULL, 0, r->error);
    return node < 0 ? -1 : quoted(r->form, node);
}

static int by_pattern(SchemaReader *r, const cJSON *pattern, const SchemaPath *path) {
    const char *text = cJSON_GetStringValue(pattern);
    if (!text) return schema_fail(r, path, "must be a string, not %s", show_json(pattern).text);
    int node = regex_node(r->form, text, strlen(text), true, json_node_class, r->json.character, r->error);
    if (node >= 0) return quoted(r->form, node);
    char why[sizeof r->error->message];
    memcpy(why, r->error->message, sizeof why);
    return schema_fail(r, path, "%s", why);
}

/* Beside a pattern a format is an annotation, which zod writes beside every pattern of its own. Where such a one looks
 * ahead or behind, and no graph can, the format stands for it. */
static int by_pattern_or_format(SchemaReader *r, const cJSON *pattern, const cJSON *format, const SchemaPath *path) {
    const char *name = cJSON_GetStringValue(format);
    FormError before = *r->error;
    int node = by_pattern(r, pattern, &(SchemaPath){path, "pattern", 0});
    if (node >= 0 || !name || !pattern_of_format(name)) return node;
    *r->error = before;
    return by_format(r, format, &(SchemaPath){path, "format", 0});
}

int schema_string(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    const cJSON *pattern = schema_keyword(r, schema, "pattern"), *format = schema_keyword(r, schema, "format");
    const cJSON *least = schema_keyword(r, schema, "minLength"), *most = schema_keyword(r, schema, "maxLength");
    int low, high, node = GRAPH_NEVER;
    if (says_nothing(format)) format = NULL;
    if (pattern)
        node = by_pattern_or_format(r, pattern, format, path);
    else if (format)
        node = by_format(r, format, &(SchemaPath){path, "format", 0});
    if (node >= 0 && (pattern || format) && (least || most))
        return schema_fail(r, &(SchemaPath){path, least ? "minLength" : "maxLength", 0},
                           "is not supported beside another bound of strings");
    if (pattern || format) return node;
    if (schema_count(r, schema, "minLength", 0, path, &low) ||
        schema_count(r, schema, "maxLength", GRAPH_ENDLESS, path, &high))
        return -1;
    if (high != GRAPH_ENDLESS && low > high)
        return schema_fail(r, &(SchemaPath){path, "minLength", 0}, "is %d, maxLength only %d", low, high);
    if (!low && high == GRAPH_ENDLESS) return r->json.string;
    return quoted(r->form, graph_repeat(r->form, r->json.character, low, high));
}

/* ---- arrays ---- */

typedef struct Items {
    int low, high; /* high GRAPH_ENDLESS */
    int rest;      /* of what stands behind the first ones */
} Items;

/* What stands behind `before` items. */
static int items_behind(Form *f, const JsonNodes *j, const Items *items, int before) {
    int high = items->high == GRAPH_ENDLESS ? GRAPH_ENDLESS : MAX(items->high - before, 0),
        low = MAX(items->low - before, 0);
    if (before > 0) return graph_repeat(f, graph_then(f, j->comma, items->rest), low, high);
    if (high == 0) return GRAPH_EMPTY;
    int more =
        graph_repeat(f, graph_then(f, j->comma, items->rest), MAX(low - 1, 0), high == GRAPH_ENDLESS ? high : high - 1);
    int some = graph_then(f, items->rest, more);
    return low > 0 ? some : graph_optional(f, some);
}

static int prefix(SchemaReader *r, const cJSON *first, int n, const Items *items, const SchemaPath *path) {
    Form *f = r->form;
    SchemaPath here = {path, "prefixItems", 0};
    int all = items_behind(f, &r->json, items, n);
    for (int i = n - 1; i >= 0; i--) {
        int one = r->node(r, cJSON_GetArrayItem(first, i), &(SchemaPath){&here, NULL, i});
        if (one < 0) return -1;
        all = graph_then(f, i > 0 ? graph_then(f, r->json.comma, one) : one, all);
        if (items->high != GRAPH_ENDLESS && i >= items->high) all = GRAPH_EMPTY;
        if (i >= items->low) all = graph_optional(f, all);
    }
    return all;
}

int schema_array(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    enum { MOST_FIRST = 256 };
    const cJSON *first = schema_keyword(r, schema, "prefixItems"), *rest = schema_keyword(r, schema, "items");
    if (cJSON_IsArray(rest) && !first) first = rest, rest = NULL; /* as drafts before 2020-12 say it */
    Items items = {.rest = first ? GRAPH_NEVER : r->json.value};
    int n = cJSON_GetArraySize(first);
    if (schema_count(r, schema, "minItems", 0, path, &items.low) ||
        schema_count(r, schema, "maxItems", GRAPH_ENDLESS, path, &items.high))
        return -1;
    if (items.high != GRAPH_ENDLESS && items.low > items.high)
        return schema_fail(r, &(SchemaPath){path, "minItems", 0}, "is %d, maxItems only %d", items.low, items.high);
    if (first && (!cJSON_IsArray(first) || n == 0 || n > MOST_FIRST))
        return schema_fail(r, &(SchemaPath){path, first->string, 0}, "must be an array of 1 to %d schemas", MOST_FIRST);
    if (rest) items.rest = r->node(r, rest, &(SchemaPath){path, "items", 0});
    if (items.rest < 0) return -1;
    int all = prefix(r, first, n, &items, path);
    return all < 0 ? -1 : json_node_array(r->form, &r->json, all);
}
