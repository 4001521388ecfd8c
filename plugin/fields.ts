import { isRecord } from '../operator/model/is-record.ts';
import { ExactNumber } from './exact-json.ts';

/** A field as text for a cell; empty where there is none. */
export function text(value: unknown, field: string): string {
  const found = isRecord(value) ? value[field] : undefined;
  if (found instanceof ExactNumber) return found.text;
  return typeof found === 'string' || typeof found === 'boolean' ? String(found) : '';
}

/** A field as a number; 0 where there is none. */
export function number(value: unknown, field: string): number {
  return Number(text(value, field)) || 0;
}

/** The items of a field that is a list. */
export function list(value: unknown, field: string): readonly unknown[] {
  const found = isRecord(value) ? value[field] : undefined;
  return Array.isArray(found) ? found : [];
}

/** An object within an object; undefined where there is none. */
export function object(value: unknown, field: string): unknown {
  return isRecord(value) ? value[field] : undefined;
}
