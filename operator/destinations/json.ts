import { isRecord } from '../model/is-record.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** The object of a field; an empty one where there is none. */
export function objectOf(object: JsonObject, field: string): JsonObject {
  const value = object[field];
  return isRecord(value) ? value : {};
}

/** A field that should hold text; an empty text counts as none. */
export function textOf(object: JsonObject, field: string): string | undefined {
  const value = object[field];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A field that should hold a time, in milliseconds since the epoch; undefined where it holds none. */
export function timeOf(object: JsonObject, field: string): number | undefined {
  const time = Date.parse(textOf(object, field) ?? '');
  return Number.isNaN(time) ? undefined : time;
}

/** The objects of a field that should hold a list of them. */
export function objectsOf(object: JsonObject, field: string): readonly JsonObject[] {
  const value = object[field];
  return Array.isArray(value) ? (value as unknown[]).filter(isRecord) : [];
}

/** The texts of a field that should hold a list of them. */
export function textsOf(object: JsonObject, field: string): readonly string[] {
  const value = object[field];
  return Array.isArray(value)
    ? (value as unknown[]).filter((item) => typeof item === 'string')
    : [];
}
