import type { FakeResponse } from '../fake-server.ts';
import { invalid, ok } from './answers.ts';
import { type Form, text } from './form.ts';

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 100;

/** Returns one page, newest first. `objects` are in the order of their creation. */
export function page<T extends { readonly id: string }>(
  url: string,
  query: Form,
  objects: readonly T[],
  show: (object: T) => unknown,
): FakeResponse {
  const limit = Number(text(query, 'limit') ?? DEFAULT_LIMIT);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    return invalid(
      'Invalid limit: must be between 1 and 100',
      'parameter_invalid_integer',
      'limit',
    );
  }
  const newest = objects.toReversed();
  const after = text(query, 'starting_after');
  const start = after === undefined ? 0 : newest.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) return invalid(`No such object: '${after}'`);
  const shown = newest.slice(start, start + limit);
  const has_more = newest.length > start + shown.length;
  return ok({ object: 'list', url, data: shown.map(show), has_more });
}

/** Returns whether an object passes a list's `created` filter. */
export function isCreatedWithin(query: Form, created: number): boolean {
  const gte = text(query, 'created', 'gte');
  return gte === undefined || created >= Number(gte);
}

/** Returns the refusal of a parameter that the endpoint does not have. */
export function unknownParameter(form: Form, known: readonly string[]): FakeResponse | undefined {
  const stranger = Object.keys(form).find((name) => !known.includes(name));
  if (stranger === undefined) return undefined;
  return invalid(`Received unknown parameter: ${stranger}`, 'parameter_unknown', stranger);
}

export const PAGING = ['limit', 'starting_after', 'ending_before'] as const;
