/* json_schema: whether a JSON value is what a schema of OpenAPI 3.1 says, by the keywords that /openapi.json uses; one
 * that is not known here is a failure. */
#ifndef NOISED_TEST_JSON_SCHEMA_H
#define NOISED_TEST_JSON_SCHEMA_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The schema itself, or what its $ref names in the document; NULL when that is not there. */
const cJSON *schema_resolve(const cJSON *document, const cJSON *schema);

/* why: what is wrong, where it is wrong. */
bool schema_check(const cJSON *document, const cJSON *schema, const cJSON *value, char why[256]);

#endif
