/* What no value can be of two schemas by: the types, the listed values, or a property that both require. */
#include "server/form/schema.h"

#include "base/json/json_reader.h"

#include <math.h>
#include <string.h>

enum { DEEP = 8, MOST_COMPARED = 1 << 18 };

static bool gives_up(SchemaReader *r, int deep) { return deep == 0 || ++r->n_compared > MOST_COMPARED; }

int schema_type_named(const char *name) {
    static const struct {
        const char *name;
        int types;
    } names[] = {{"null", SCHEMA_NULL},     {"boolean", SCHEMA_BOOLEAN}, {"integer", SCHEMA_INTEGER},
                 {"string", SCHEMA_STRING}, {"array", SCHEMA_ARRAY},     {"number", SCHEMA_INTEGER | SCHEMA_NUMBER},
                 {"object", SCHEMA_OBJECT}};
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (!strcmp(name, names[i].name)) return names[i].types;
    return 0;
}

int schema_type_of(const cJSON *v) {
    if (cJSON_IsNumber(v)) return v->valuedouble == floor(v->valuedouble) ? SCHEMA_INTEGER : SCHEMA_NUMBER;
    if (cJSON_IsString(v)) return SCHEMA_STRING;
    if (cJSON_IsBool(v)) return SCHEMA_BOOLEAN;
    if (cJSON_IsArray(v)) return SCHEMA_ARRAY;
    return cJSON_IsObject(v) ? SCHEMA_OBJECT : SCHEMA_NULL;
}

/* The one that says what values are of it: that of a $ref, of an allOf of one. NULL when that is too far. */
static const cJSON *resolve(const SchemaReader *r, const cJSON *s) {
    for (int i = 0; i < DEEP && s; i++) {
        const cJSON *ref = json_field(s, "$ref"), *all = json_field(s, "allOf");
        if (!ref && !(all && all->child && !all->child->next)) return s;
        s = ref ? schema_follow(r, ref, NULL) : all->child;
    }
    return NULL;
}

static int types_within(SchemaReader *r, const cJSON *schema, int deep) {
    const cJSON *s = resolve(r, schema), *item;
    if (!cJSON_IsObject(s) || gives_up(r, deep)) return SCHEMA_ANY;
    const cJSON *type = json_field(s, "type"), *values = json_field(s, "enum"), *only = json_field(s, "const");
    const cJSON *any = json_field(s, "anyOf") ? json_field(s, "anyOf") : json_field(s, "oneOf");
    int types = 0;
    if (only) return schema_type_of(only);
    cJSON_ArrayForEach(item, values) types |= schema_type_of(item);
    cJSON_ArrayForEach(item, any) types |= types_within(r, item, deep - 1);
    if (types) return types;
    if (cJSON_IsString(type)) return schema_type_named(type->valuestring);
    cJSON_ArrayForEach(item, type) types |= cJSON_IsString(item) ? schema_type_named(item->valuestring) : 0;
    return types ? types : SCHEMA_ANY;
}

/* The first value that the schema lists, and the one behind `value`. */
static const cJSON *first_listed(const cJSON *s) {
    const cJSON *only = json_field(s, "const"), *values = json_field(s, "enum");
    return only ? only : values ? values->child : NULL;
}

static const cJSON *next_listed(const cJSON *s, const cJSON *value) {
    return value == json_field(s, "const") ? NULL : value->next;
}

static bool lists_apart(SchemaReader *r, const cJSON *a, const cJSON *b) {
    if (!first_listed(a) || !first_listed(b)) return false;
    for (const cJSON *x = first_listed(a); x; x = next_listed(a, x))
        for (const cJSON *y = first_listed(b); y; y = next_listed(b, y))
            if (gives_up(r, DEEP) || cJSON_Compare(x, y, true)) return false;
    return true;
}

static bool apart(SchemaReader *r, const cJSON *x, const cJSON *y, int deep) {
    const cJSON *a = resolve(r, x), *b = resolve(r, y), *p;
    if (!a || !b || gives_up(r, deep)) return false;
    if (!(types_within(r, a, DEEP) & types_within(r, b, DEEP)) || lists_apart(r, a, b)) return true;
    cJSON_ArrayForEach(p, json_field(a, "properties")) {
        const cJSON *q = json_field(json_field(b, "properties"), p->string);
        if (q && schema_requires(a, p->string) && schema_requires(b, p->string) && apart(r, p, q, deep - 1))
            return true;
    }
    return false;
}

bool schema_apart(SchemaReader *r, const cJSON *a, const cJSON *b) { return apart(r, a, b, DEEP); }
