/* foreign: fields that clients of other servers send and that are not supported. Each is accepted at the values that
 * change nothing there either, and refused by name at any other, unless the server is lenient: then it is left aside,
 * as is a field that nobody knows, and the answer says so in the header x-noised-ignored. */
#ifndef NOISED_API_FOREIGN_H
#define NOISED_API_FOREIGN_H

#include "server/api/fields.h"

extern const FieldList foreign_fields; /* FIELD_NEUTRAL, all of them */

#endif
