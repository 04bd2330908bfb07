/* Objects of a schema: the properties in their order, then others. */
#include "server/form/schema.h"

#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Each name is looked for among the others. */
enum { MOST_PROPERTIES = 2048 };

static int check_count(SchemaReader *r, const cJSON *names, const SchemaPath *path) {
    int n = cJSON_GetArraySize(names);
    if (n <= MOST_PROPERTIES) return 0;
    return schema_fail(r, &(SchemaPath){path, names->string, 0}, "has %d names, the limit is %d", n, MOST_PROPERTIES);
}

static int check_required(SchemaReader *r, const cJSON *properties, const cJSON *required, const SchemaPath *path) {
    SchemaPath here = {path, "required", 0};
    const cJSON *item;
    if (required && !cJSON_IsArray(required)) return schema_fail(r, &here, "must be an array of names");
    cJSON_ArrayForEach(item, required) {
        if (!cJSON_IsString(item)) return schema_fail(r, &here, "must be an array of names");
        if (json_field(properties, item->valuestring)) continue;
        schema_fail(r, &here, "names %s, which properties lacks", show_json(item).text);
        if (!schema_leave_out(r, NULL)) return -1;
    }
    return 0;
}

/* ---- names of other properties ---- */

/* Of one of the names, what follows its first bytes; sorted. */
typedef struct Names {
    const char **names;
    int n;
    int character; /* what a name is made of */
} Names;

/* Texts that are none of names [first, end), which have their first `at` bytes in common: what stands behind these.
 * -1 when there are too many of them. */
static int none_of(Form *f, const Names *all, int first, int end, size_t at) {
    enum { MOST = 256 };
    Range taken[MOST + 3] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    int n_taken = 3, i = first, node = GRAPH_EMPTY;
    if (first < end && !all->names[first][at]) { /* they are sorted, each once */
        node = GRAPH_NEVER;
        i++;
    }
    while (i < end) {
        const char *rest = all->names[i] + at;
        size_t length = utf8_char_length(rest, strlen(rest));
        uint32_t c = utf8_get(rest, length);
        int next = i + 1;
        while (next < end && !strncmp(all->names[next] + at, all->names[i] + at, length)) next++;
        int behind = none_of(f, all, i, next, at + length);
        if (behind < 0 || n_taken == MOST + 3) return -1;
        taken[n_taken++] = (Range){c, c};
        node = graph_either(f, node, graph_then(f, graph_text(f, all->names[i] + at, length), behind));
        i = next;
    }
    int any = graph_repeat(f, all->character, 0, GRAPH_ENDLESS);
    return graph_either(f, node, graph_then(f, graph_class(f, taken, n_taken, true), any));
}

/* A name that is no property's, with its colon: where there are any, one without escapes, which could spell them. */
static int other_name(SchemaReader *r, const cJSON *properties, const SchemaPath *path) {
    static const Range marked[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    enum { MOST_BYTES = 256 };
    Form *f = r->form;
    if (!properties || !properties->child) return graph_then(f, r->json.string, graph_string(f, ":"));
    Names all = {.names = try_calloc((size_t)cJSON_GetArraySize(properties), sizeof *all.names),
                 .character = graph_class(f, marked, COUNTOF(marked), true)};
    const cJSON *p;
    bool long_name = false;
    if (!all.names) return form_no_memory(r->error), -1;
    cJSON_ArrayForEach(p, properties) {
        all.names[all.n++] = p->string;
        long_name = long_name || strlen(p->string) > MOST_BYTES;
    }
    qsort(all.names, (size_t)all.n, sizeof *all.names, text_order);
    int node = long_name ? -1 : none_of(f, &all, 0, all.n, 0);
    free(all.names);
    if (node < 0)
        return schema_fail(r, path, "is not supported beside names of more than %d bytes, or so many", MOST_BYTES);
    return graph_then(f, graph_string(f, "\""), graph_then(f, node, graph_string(f, "\":")));
}

/* ---- members ---- */

/* What may follow, where a member stands in front of it and where none does. */
typedef struct Tail {
    int behind, alone;
} Tail;

static int others(SchemaReader *r, const cJSON *properties, const cJSON *more, const SchemaPath *path, Tail *tail) {
    Form *f = r->form;
    SchemaPath here = {path, "additionalProperties", 0};
    *tail = (Tail){GRAPH_EMPTY, GRAPH_EMPTY};
    if (cJSON_IsFalse(more) || (!more && properties)) return 0;
    int value = more ? r->node(r, more, &here) : r->json.value, name = other_name(r, properties, &here);
    if (value < 0 || name < 0) return -1;
    int member = graph_then(f, name, graph_then(f, r->json.space, value));
    tail->behind = graph_repeat(f, graph_then(f, r->json.comma, member), 0, GRAPH_ENDLESS);
    tail->alone = graph_optional(f, graph_then(f, member, tail->behind));
    return 0;
}

static int property(SchemaReader *r, const cJSON *p, bool required, const SchemaPath *path, Tail *tail) {
    Form *f = r->form;
    int value = r->node(r, p, &(SchemaPath){path, p->string, 0});
    if (value < 0) return -1;
    int member = graph_then(f, json_node_key(f, &r->json, p->string), value);
    int behind = graph_then(f, r->json.comma, graph_then(f, member, tail->behind));
    int alone = graph_then(f, member, tail->behind);
    *tail = (Tail){required ? behind : graph_either(f, behind, tail->behind),
                   required ? alone : graph_either(f, alone, tail->alone)};
    return 0;
}

int schema_object(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    const cJSON *properties = schema_keyword(r, schema, "properties");
    const cJSON *required = schema_keyword(r, schema, "required");
    SchemaPath here = {path, "properties", 0};
    Tail tail;
    if (properties && !cJSON_IsObject(properties)) return schema_fail(r, &here, "must be an object of schemas");
    if (check_count(r, properties, path) || check_count(r, required, path)) return -1;
    if (check_required(r, properties, required, path) ||
        others(r, properties, schema_keyword(r, schema, "additionalProperties"), path, &tail))
        return -1;
    const cJSON *last = properties ? properties->child : NULL;
    while (last && last->next) last = last->next;
    for (const cJSON *p = last; p; p = p == properties->child ? NULL : p->prev)
        if (property(r, p, schema_requires(schema, p->string, &(int){0}), &here, &tail)) return -1;
    return json_node_object(r->form, &r->json, tail.alone);
}
