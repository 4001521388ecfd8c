import { posix } from 'node:path';
import { invalid, type Parser, valid } from './parser.ts';

/**
 * Control characters and line separators: they break log lines and the hashing of event ids
 * (docs/reference/events.md#ids).
 */
const UNCLEAN = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

/** Printable text of 1 to `most` characters. */
export function text(most: number): Parser<string> {
  const fix = `give 1 to ${most} printable characters`;
  return {
    accepts: `1 to ${most} printable characters`,
    parse(input) {
      if (input === '') return invalid('blank', fix);
      if (input.length > most) return invalid('too long', fix);
      if (UNCLEAN.test(input)) return invalid('contains control characters', fix);
      return valid(input);
    },
  };
}

/** Text that matches a pattern. */
export function matching(
  pattern: RegExp,
  description: string,
  what: string,
  fix: string,
): Parser<string> {
  return {
    accepts: description,
    parse: (input) => (pattern.test(input) ? valid(input) : invalid(what, fix)),
  };
}

/** One of several fixed words. */
export function choice<const T extends string>(...options: readonly T[]): Parser<T> {
  const listed = options.map((option) => `\`${option}\``).join(', ');
  const last = options.at(-1) ?? '';
  const fix = `use ${options.slice(0, -1).join(', ')} or ${last}`;
  return {
    accepts: listed,
    parse(input) {
      const found = options.find((option) => option === input);
      return found === undefined ? invalid('not one of the choices', fix) : valid(found);
    },
  };
}

const TRUE = new Set(['true', '1', 'yes']);
const FALSE = new Set(['false', '0', 'no']);

/** `true/false/1/0/yes/no`, case-insensitive. */
export function boolean(): Parser<boolean> {
  return {
    accepts: '`true`, `false`',
    parse(input) {
      const word = input.toLowerCase();
      if (TRUE.has(word)) return valid(true);
      if (FALSE.has(word)) return valid(false);
      return invalid('not a boolean', 'use true or false');
    },
    field(value) {
      return this.parse(String(value));
    },
  };
}

/** A whole number from `least` to `most`, both included. */
export function integer(least: number, most: number): Parser<number> {
  const fix = `give a whole number between ${least} and ${most}`;
  return {
    accepts: `${least} to ${most}`,
    parse(input) {
      if (!/^\d{1,15}$/.test(input)) return invalid('not a whole number', fix);
      const value = Number(input);
      return value < least || value > most ? invalid('out of range', fix) : valid(value);
    },
    field(value) {
      return this.parse(String(value));
    },
  };
}

/** An absolute path, normalized. */
export function absolutePath(): Parser<string> {
  const fix = 'give an absolute path, such as /var/lib/meterfeed';
  return {
    accepts: 'an absolute path',
    parse(input) {
      if (!posix.isAbsolute(input)) return invalid('not an absolute path', fix);
      if (UNCLEAN.test(input)) return invalid('contains control characters', fix);
      const normal = posix.normalize(input);
      return valid(normal.length > 1 ? normal.replace(/\/$/, '') : normal);
    },
  };
}

const CURRENCIES = new Set(Intl.supportedValuesOf('currency'));

/** An ISO 4217 currency code; lower case is accepted. */
export function currency(): Parser<string> {
  return {
    accepts: 'an ISO 4217 code',
    parse(input) {
      const code = input.toUpperCase();
      if (CURRENCIES.has(code)) return valid(code);
      return invalid('not an ISO 4217 currency', 'give a code such as USD or EUR');
    },
  };
}
