import { RESERVED_KEYS } from '../../model/event-schema.ts';
import { quote } from '../../model/validate-event.ts';
import { badRequest } from '../problem.ts';
import { GROUP_FIELDS } from './usage-sums.ts';

const MAX_KEYS = 8;
const DIMENSION_KEY = /^[a-z][a-z0-9_]{0,63}$/;
const TIME_KEYS = ['day', 'hour'];
/** Every row has them anyway. */
const IMPLIED_KEYS = ['metric', 'unit'];
const FIELDS: readonly string[] = GROUP_FIELDS;
const RESERVED: readonly string[] = RESERVED_KEYS;

/** The keys of `group_by`, a comma list; `tenant` when it is not given. Throws 400. */
export function readGroupBy(text: string | undefined): readonly string[] {
  if (text === undefined) return ['tenant'];
  const keys = [...new Set(text.split(',').map((key) => key.trim()))].filter(
    (key) => !IMPLIED_KEYS.includes(key),
  );
  for (const key of keys) if (!isGroupKey(key)) throw unknownKey(key);
  if (keys.length <= MAX_KEYS) return keys;
  throw badRequest(`too many keys: group_by: ${keys.length}: use at most ${MAX_KEYS}`);
}

function isGroupKey(key: string): boolean {
  if (FIELDS.includes(key) || TIME_KEYS.includes(key)) return true;
  return DIMENSION_KEY.test(key) && !RESERVED.includes(key);
}

function unknownKey(key: string): Error {
  const known = [...FIELDS, ...TIME_KEYS].join(', ');
  return badRequest(`unknown key: group_by: ${quote(key)}: use ${known} or a dimension`);
}
