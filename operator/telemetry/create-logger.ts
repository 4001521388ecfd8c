import type { Writable } from 'node:stream';
import { createLogger as createWinston, format, transports } from 'winston';
import type { LogFields, Logger } from './logger.ts';
import { plainValue } from './plain-value.ts';
import { createScrubber, type Scrubber } from './scrubber.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** A logger whose level can be changed while it is used. */
export interface AdjustableLogger extends Logger {
  setLevel(level: LogLevel): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  /** `json`: one object per line, for collectors; `text`: for people. */
  readonly format: 'json' | 'text';
  /** Standard output when absent (spec 7). */
  readonly output?: Writable;
  /** Knows the loaded secrets; nothing it knows is ever written. */
  readonly scrubber?: Scrubber;
}

/** The finished line, under which winston's stream transport looks for it. */
const LINE = Symbol.for('message');

/** Anything that could end a line early or steer a terminal. */
const CONTROL = /[\p{Cc}\u2028\u2029]+/gu;

/** A {@link Logger} on winston: one line per message on standard output, secrets masked. */
export function createLogger(options: LoggerOptions): AdjustableLogger {
  const scrubber = options.scrubber ?? createScrubber();
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
  const pairs = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`);
  return `${at} ${level.toUpperCase().padEnd(5)} ${message}${pairs.join('')}`.replace(CONTROL, ' ');
}
