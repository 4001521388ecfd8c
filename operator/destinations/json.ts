import { isRecord } from '../model/is-record.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns the object in a field; an empty one where there is none. */
export function objectOf(object: JsonObject, field: string): JsonObject {
  const value = object[field];
  return isRecord(value) ? value : {};
}

/** Returns the text in a field; undefined where it is empty or no text. */
export function textOf(object: JsonObject, field: string): string | undefined {
  const value = object[field];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns the time in a field, milliseconds since the epoch; undefined where there is none. */
export function timeOf(object: JsonObject, field: string): number | undefined {
  const time = Date.parse(textOf(object, field) ?? '');
  return Number.isNaN(time) ? undefined : time;
}

/** Returns the objects of a list in a field; an empty list where there is none. */
export function objectsOf(object: JsonObject, field: string): readonly JsonObject[] {
  const value = object[field];
  return Array.isArray(value) ? (value as unknown[]).filter(isRecord) : [];
}

/** Returns the texts of a list in a field; an empty list where there is none. */
export function textsOf(object: JsonObject, field: string): readonly string[] {
  const value = object[field];
  return Array.isArray(value)
    ? (value as unknown[]).filter((item) => typeof item === 'string')
    : [];
}
