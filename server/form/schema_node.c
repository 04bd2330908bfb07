/* A schema: what its keywords say, and which of the others reads them. */
#include "server/form/schema.h"

#include "base/text.h"
#include "base/json/json_reader.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- keywords ---- */

typedef enum Group { SAYS_NOTHING, WHOLE, VALUES, TYPE, OF_OBJECT, OF_ARRAY, OF_STRING, OF_NUMBER } Group;

/* Keywords that bound nothing as they stand. */
static bool is_off(const cJSON *item) {
    static const char *const switches[] = {"uniqueItems", "nullable", NULL};
    if (text_is_in(item->string, switches)) return cJSON_IsFalse(item);
    return !strcmp(item->string, "propertyNames") && cJSON_GetArraySize(item) == 1 &&
           json_is_text(json_field(item, "type"), "string");
}

static int group_of(const char *keyword) {
    static const struct {
        Group group;
        const char *names; /* with spaces around each */
    } groups[] = {
        {SAYS_NOTHING,
         " title description default example examples $schema $id $comment $defs definitions deprecated "
         "readOnly writeOnly discriminator contentEncoding contentMediaType markdownDescription enumDescriptions "},
        {WHOLE, " $ref anyOf oneOf allOf "},
        {VALUES, " enum const "},
        {TYPE, " type "},
        {OF_OBJECT, " properties required additionalProperties "},
        {OF_ARRAY, " items prefixItems minItems maxItems "},
        {OF_STRING, " minLength maxLength pattern format "},
        {OF_NUMBER, " minimum maximum exclusiveMinimum exclusiveMaximum "},
    };
    char name[32];
    if (!strncmp(keyword, "x-", 2)) return SAYS_NOTHING;
    if (strlen(keyword) > 24 || strchr(keyword, ' ')) return -1;
    snprintf(name, sizeof name, " %s ", keyword);
    for (size_t i = 0; i < COUNTOF(groups); i++)
        if (strstr(groups[i].names, name)) return (int)groups[i].group;
    return -1;
}

/* What is there, as bits of groups; the keyword of WHOLE or VALUES that says all, or NULL. */
typedef struct Keywords {
    unsigned groups;
    const cJSON *whole;
    bool typed; /* type stands beside it */
} Keywords;

static int read_keywords(SchemaReader *r, const cJSON *schema, const SchemaPath *path, Keywords *k) {
    const cJSON *item;
    *k = (Keywords){0};
    cJSON_ArrayForEach(item, schema) {
        int group = group_of(item->string);
        SchemaPath here = {path, item->string, 0};
        if (is_off(item) || schema_skips(r, item)) continue;
        if (group < 0) return schema_fail(r, &here, "is not supported");
        bool all = group == WHOLE || group == VALUES;
        if (all && k->whole) return schema_fail(r, &here, "is not supported beside %s", k->whole->string);
        if (all) k->whole = item;
        k->groups |= 1u << group;
    }
    if (!k->whole) return 0;
    bool listed = k->groups & 1u << VALUES;
    cJSON_ArrayForEach(item, schema) {
        int group = group_of(item->string);
        if (item == k->whole || group <= SAYS_NOTHING || is_off(item) || schema_skips(r, item)) continue;
        if (group == TYPE) {
            k->typed = true;
            continue;
        }
        const cJSON *refused = listed ? item : k->whole, *beside = listed ? k->whole : item;
        return schema_fail(r, &(SchemaPath){path, refused->string, 0}, "is not supported beside %s", beside->string);
    }
    return 0;
}

/* ---- references ---- */

/* A schema is made once, whoever refers to it, itself included. */
static int reference(SchemaReader *r, const cJSON *ref, const SchemaPath *path) {
    const cJSON *target = schema_follow(r, ref, path, &(int){0});
    if (!target) return -1;
    for (int i = 0; i < r->n_known; i++)
        if (r->known[i] == target) return r->names[i];
    if (r->n_known == GRAPH_NAMES) return schema_fail(r, &(SchemaPath){path, ref->string, 0}, "is one of too many");
    int name = graph_name(r->form);
    r->known[r->n_known] = target;
    r->names[r->n_known++] = name;
    const char *where = ref->valuestring + (ref->valuestring[1] == '/' ? 2 : 1);
    int node = r->node(r, target, *where ? &(SchemaPath){r->root_path, where, 0} : r->root_path);
    if (node < 0) return -1;
    graph_define(r->form, name, node);
    return name;
}

/* ---- what says all ---- */

/* Whether every value is of it, annotations aside. */
static bool bounds_nothing(const SchemaReader *r, const cJSON *schema) {
    const cJSON *item;
    if (!cJSON_IsObject(schema)) return cJSON_IsTrue(schema);
    cJSON_ArrayForEach(item, schema) if (group_of(item->string) != SAYS_NOTHING && !is_off(item) &&
                                         !schema_skips(r, item)) return false;
    return true;
}

/* The first one that bounds anything; NULL: none does. */
static const cJSON *bounding(const SchemaReader *r, const cJSON *branches) {
    const cJSON *b = branches->child;
    while (b && bounds_nothing(r, b)) b = b->next;
    return b;
}

static int check_apart(SchemaReader *r, const cJSON *branches, const SchemaPath *path) {
    int i = 0;
    for (const cJSON *a = branches->child; a; a = a->next, i++) {
        int k = i + 1;
        for (const cJSON *b = a->next; b; b = b->next, k++)
            if (!schema_apart(r, a, b))
                return schema_fail(r, path, "a value may be of both [%d] and [%d]: use anyOf, or a property with const",
                                   i, k);
    }
    return 0;
}

static int combined(SchemaReader *r, const cJSON *branches, const SchemaPath *path) {
    enum { MOST_APART = 100 };
    SchemaPath here = {path, branches->string, 0};
    bool all = !strcmp(branches->string, "allOf"), one = !strcmp(branches->string, "oneOf");
    int n = cJSON_GetArraySize(branches), node = GRAPH_NEVER, bounds = 0, i = 0;
    if (!cJSON_IsArray(branches) || n == 0) return schema_fail(r, &here, "must be an array of schemas");
    if (one && n > MOST_APART) return schema_fail(r, &here, "has %d schemas, the limit is %d", n, MOST_APART);
    for (const cJSON *b = branches->child; b; b = b->next, i++) {
        int next = r->node(r, b, &(SchemaPath){&here, NULL, i});
        if (next < 0) return -1;
        if (all && bounds_nothing(r, b)) continue;
        if (all && bounds++) return schema_fail(r, &here, "is not supported with more than one schema");
        node = graph_either(r->form, node, next);
    }
    if (all && !bounds) return r->json.value;
    return one && check_apart(r, branches, &here) && !schema_leave_out(r, NULL) ? -1 : node;
}

/* What a keyword of WHOLE says, which no type beside it may narrow. */
static int whole(SchemaReader *r, const cJSON *schema, const Keywords *k, int types, const SchemaPath *path) {
    const char *name = k->whole->string;
    int node = (strcmp(name, "$ref") ? combined : reference)(r, k->whole, path);
    const cJSON *said = strcmp(name, "allOf") ? schema : bounding(r, k->whole);
    if (node < 0 || !k->typed || !(schema_types_within(r, said) & ~types)) return node;
    return schema_fail(r, &(SchemaPath){path, name, 0}, "is not supported beside a narrower type");
}

/* Those of the schema's types: false when one is wrong. */
static int types_of(SchemaReader *r, const cJSON *schema, const SchemaPath *path, int *types) {
    const cJSON *type = schema_keyword(r, schema, "type");
    SchemaPath here = {path, "type", 0};
    *types = 0;
    const cJSON *first = cJSON_IsArray(type) ? type->child : type;
    for (const cJSON *t = first; t; t = cJSON_IsArray(type) ? t->next : NULL) {
        int one = cJSON_IsString(t) ? schema_type_named(t->valuestring) : 0;
        if (!one) return schema_fail(r, &here, "must name types of JSON, not %s", show_json(t).text);
        *types |= one;
    }
    return type && !*types ? schema_fail(r, &here, "must name a type") : 0;
}

static int listed(SchemaReader *r, const cJSON *values, int types, const SchemaPath *path) {
    bool one = !strcmp(values->string, "const");
    SchemaPath here = {path, values->string, 0};
    int n = one ? 1 : cJSON_GetArraySize(values), kept = 0, node = GRAPH_NEVER;
    if (!one && (!cJSON_IsArray(values) || n == 0)) return schema_fail(r, &here, "must be an array of values");
    char **words = try_calloc((size_t)n, sizeof *words);
    if (!words) return form_no_memory(r->error), -1;
    const cJSON *v = one ? values : values->child;
    for (int i = 0; i < n; i++, v = v->next) {
        if (types && !(schema_type_of(v) & types)) continue;
        if (v->child) {
            node = graph_either(r->form, node, json_node_literal(r->form, &r->json, v));
            continue;
        }
        words[kept] = json_literal_text(v);
        if (!words[kept++]) r->form->failed = true;
    }
    if (!r->form->failed) node = graph_either(r->form, node, graph_words(r->form, words, kept));
    if (node == GRAPH_NEVER && !r->form->failed) node = schema_fail(r, &here, "has no value of the type");
    for (int i = 0; i < kept; i++) free(words[i]);
    free(words);
    return node;
}

/* ---- a schema ---- */

static int typed(SchemaReader *r, const cJSON *schema, int types, const SchemaPath *path) {
    const JsonNodes *j = &r->json;
    int all = GRAPH_NEVER;
    for (int type = SCHEMA_NULL; type <= SCHEMA_OBJECT; type *= 2) {
        int node = GRAPH_NEVER;
        if (!(types & type)) continue;
        if (type == SCHEMA_NULL) node = j->null;
        if (type == SCHEMA_BOOLEAN) node = j->boolean;
        if (type == SCHEMA_INTEGER && !(types & SCHEMA_NUMBER)) node = schema_number(r, schema, true, path);
        if (type == SCHEMA_NUMBER) node = schema_number(r, schema, false, path);
        if (type == SCHEMA_STRING) node = schema_string(r, schema, path);
        if (type == SCHEMA_ARRAY) node = schema_array(r, schema, path);
        if (type == SCHEMA_OBJECT) node = schema_object(r, schema, path);
        if (node < 0) return -1;
        all = graph_either(r->form, all, node);
    }
    return all;
}

static int implied(unsigned groups) {
    int types = 0;
    if (groups & 1u << OF_OBJECT) types |= SCHEMA_OBJECT;
    if (groups & 1u << OF_ARRAY) types |= SCHEMA_ARRAY;
    if (groups & 1u << OF_STRING) types |= SCHEMA_STRING;
    if (groups & 1u << OF_NUMBER) types |= SCHEMA_INTEGER | SCHEMA_NUMBER;
    return types;
}

static int exact_node(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    Keywords k;
    int types;
    if (cJSON_IsTrue(schema)) return r->json.value;
    if (cJSON_IsFalse(schema)) return GRAPH_NEVER;
    if (!cJSON_IsObject(schema)) return schema_fail(r, path, "must be a schema, not %s", show_json(schema).text);
    if (read_keywords(r, schema, path, &k) || types_of(r, schema, path, &types)) return -1;
    if (k.whole && group_of(k.whole->string) == VALUES) return listed(r, k.whole, types, path);
    if (k.whole) return whole(r, schema, &k, types, path);
    if (!types) types = implied(k.groups);
    return types ? typed(r, schema, types, path) : r->json.value;
}

/* Where it may be, what cannot be kept is left out, keyword by keyword; a schema that is none is any value. */
static int node_with_less(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    int node = exact_node(r, schema, path);
    while (node < 0 && r->left) {
        const cJSON *keyword = r->failed && r->failed_in == path ? schema_keyword(r, schema, r->failed) : NULL;
        if (!schema_leave_out(r, keyword)) break;
        node = keyword ? exact_node(r, schema, path) : r->json.value;
    }
    return node;
}

/* References lead to schemas as deep as JSON may be, and on from there. */
static int node_of(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    enum { DEEPEST = 2048 };
    if (r->form->failed) return GRAPH_NEVER;
    if (r->depth == DEEPEST) return schema_fail(r, path, "is nested too deep");
    r->depth++;
    int node = node_with_less(r, schema, path);
    r->depth--;
    return node;
}

/* ---- whole schemas ---- */

int schema_open(SchemaReader *r, FormError *e) {
    *e = (FormError){.path = ""};
    *r = (SchemaReader){.form = graph_new(), .node = node_of, .error = e};
    if (!r->form) return form_no_memory(e), -1;
    json_nodes_init(&r->json, r->form);
    r->known = try_malloc(GRAPH_NAMES * sizeof *r->known);
    r->names = try_malloc(GRAPH_NAMES * sizeof *r->names);
    if (r->known && r->names) return 0;
    form_no_memory(e);
    schema_close(r, -1);
    return -1;
}

int schema_root(SchemaReader *r, const cJSON *schema, const SchemaPath *path) {
    r->root = schema;
    r->root_path = path;
    r->n_skipped = 0;
    return node_of(r, schema, path);
}

Form *schema_close(SchemaReader *r, int root) {
    free(r->known);
    free(r->names);
    if (root >= 0) return graph_finish(r->form, root, r->error);
    form_release(r->form);
    return NULL;
}

Form *form_of_schema(const cJSON *schema, FormError *e) {
    SchemaReader r;
    return schema_open(&r, e) ? NULL : schema_close(&r, schema_root(&r, schema, NULL));
}

Form *form_of_object(FormError *e) {
    SchemaReader r;
    return schema_open(&r, e) ? NULL : schema_close(&r, r.json.object);
}
