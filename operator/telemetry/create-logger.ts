import type { Writable } from 'node:stream';
import { createLogger as createWinston, format, transports } from 'winston';
import { Secret } from '../model/secret.ts';
import type { LogFields, Logger } from './logger.ts';
import { Scrubber } from './scrubber.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** A logger whose level can be changed while it is used. */
export interface AdjustableLogger extends Logger {
  setLevel(level: LogLevel): void;
}

/** The property in which winston's stream transport expects the finished line. */
const LINE = Symbol.for('message');

/** Characters that could end a line early or control a terminal. */
const CONTROL = /[\p{Cc}\u2028\u2029]+/gu;

/** Limits of a value in a line: levels, items or fields, characters of a text. */
const MAX_DEPTH = 6;
const MAX_ITEMS = 100;
const MAX_CHARACTERS = 4096;

/** A {@link Logger} on winston: one line per message on standard output, secrets masked. */
export function createLogger(options: {
  readonly level: LogLevel;
  /** `json`: one object per line, for collectors; `text`: for people. */
  readonly format: 'json' | 'text';
  /** Standard output when absent. */
  readonly output?: Writable;
  /** Masks the loaded secrets in every line. */
  readonly scrubber?: Scrubber;
}): AdjustableLogger {
  const scrubber = options.scrubber ?? new Scrubber();
  const toLine = options.format === 'json' ? jsonLine : textLine;
  const winston = createWinston({
    level: options.level,
    format: format((info) => {
      const entry = { at: new Date().toISOString(), level: info.level, ...entryOf(info, scrubber) };
      return { ...info, [LINE]: toLine(entry) };
    })(),
    transports: [new transports.Stream({ stream: options.output ?? process.stdout })],
  });
  const write = (level: Entry['level']) => (message: string, fields?: LogFields) => {
    winston.log({ level, message, fields });
  };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    setLevel: (level) => {
      winston.level = level;
    },
  };
}

interface Entry {
  readonly at: string;
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields;
}

function entryOf(
  info: { readonly message: unknown; readonly fields?: unknown },
  scrubber: Scrubber,
): Pick<Entry, 'message' | 'fields'> {
  const fields = plainValue(info.fields ?? {}, scrubber.scrub) as LogFields;
  return { message: scrubber.scrub(String(info.message)).replace(CONTROL, ' '), fields };
}

/** The entry's own names win over fields of the same name. */
function jsonLine({ at, level, message, fields }: Entry): string {
  return JSON.stringify({ ...fields, time: at, level, message });
}

function textLine({ at, level, message, fields }: Entry): string {
  const pairs = Object.entries(fields).flatMap(([key, value]) =>
    value === undefined ? [] : [` ${key}=${JSON.stringify(value)}`],
  );
  return `${at} ${level.toUpperCase().padEnd(5)} ${message}${pairs.join('')}`.replace(CONTROL, ' ');
}

type Scrub = (text: string) => string;

/**
 * A value for a log line: plain JSON with limited depth and length, with the causes of errors,
 * without loops, and with secrets masked by `scrub`.
 */
function plainValue(value: unknown, scrub: Scrub, depth = 0): unknown {
  if (typeof value === 'string') return shorten(value, scrub);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'boolean' || value === null || value === undefined) return value;
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (typeof value !== 'object') return '[function]';
  if (value instanceof Secret) return String(value);
  if (value instanceof Date) return Number.isFinite(value.getTime()) ? value.toISOString() : null;
  if (depth >= MAX_DEPTH) return '…';
  if (value instanceof Error) return plainError(value, scrub, depth);
  if (value instanceof Map) return plainEntries([...value.entries()], scrub, depth);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].slice(0, MAX_ITEMS).map((item) => plainValue(item, scrub, depth + 1));
  }
  return plainEntries(Object.entries(value), scrub, depth);
}

function plainError(error: Error, scrub: Scrub, depth: number): object {
  return {
    name: error.name,
    message: shorten(error.message, scrub),
    ...('code' in error ? { code: plainValue(error.code, scrub, depth + 1) } : {}),
    ...(error.stack === undefined ? {} : { stack: shorten(error.stack, scrub) }),
    ...(error.cause === undefined ? {} : { cause: plainValue(error.cause, scrub, depth + 1) }),
  };
}

function plainEntries(
  entries: readonly (readonly [unknown, unknown])[],
  scrub: Scrub,
  depth: number,
): object {
  return Object.fromEntries(
    entries
      .slice(0, MAX_ITEMS)
      .map(([key, value]) => [scrub(String(key)), plainValue(value, scrub, depth + 1)]),
  );
}

/** Scrubs before it cuts: half a secret would not be recognised. */
function shorten(text: string, scrub: Scrub): string {
  const clean = scrub(text);
  if (clean.length <= MAX_CHARACTERS) return clean;
  return `${clean.slice(0, MAX_CHARACTERS).toWellFormed()}…`;
}
