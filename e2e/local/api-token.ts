import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import type { RunFiles } from './run-directory.ts';

/** The token that reads and changes things through the API of a local operator. */
export interface ApiToken {
  readonly value: string;
  /** Made for the run directory, and kept there; else it is the caller's own, of API_TOKEN. */
  readonly isOwn: boolean;
}

/**
 * The first of API_TOKEN where the caller has set it; else the directory's own, which is made at the first time, so that commands with
 * it are good at the next run, too.
 */
export function apiTokenOf(files: Pick<RunFiles, 'apiToken'>, given: string | undefined): ApiToken {
  if (given !== undefined) {
    const [value = ''] = given.split(',');
    return { value: value.trim(), isOwn: false };
  }
  return { value: stored(files.apiToken) ?? made(files.apiToken), isOwn: true };
}

function stored(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

function made(file: string): string {
  const token = randomBytes(16).toString('hex');
  writeFileSync(file, `${token}\n`, { mode: 0o600 });
  return token;
}
