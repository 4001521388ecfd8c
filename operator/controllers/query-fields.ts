import { VARIABLES } from '../config/variables/variables.ts';
import { type InvalidSpec, invalidField } from '../config/spec-fields.ts';

/** Each query is a template as the environment variable of the same meaning takes it. */
const QUERIES = {
  egressQuery: VARIABLES.EGRESS_QUERY.parser,
  gpuUtilQuery: VARIABLES.GPU_UTIL_QUERY.parser,
  gpuCountQuery: VARIABLES.GPU_COUNT_QUERY.parser,
} as const;

type QueryField = keyof typeof QUERIES;

/** What is wrong with the query templates of a spec; undefined when nothing is. `below` is where they stand. */
export function queryProblem(
  fields: Readonly<Partial<Record<QueryField, string>>>,
  below: string,
): InvalidSpec | undefined {
  for (const field of Object.keys(QUERIES) as QueryField[]) {
    const text = fields[field];
    if (text === undefined) continue;
    const parsed = QUERIES[field].parse(text);
    if (parsed.kind === 'problem') return invalidField(`${below}.${field}`, parsed, text);
  }
  return undefined;
}
