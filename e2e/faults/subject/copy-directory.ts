import { cpSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const TRIES = 50;

/**
 * Copies a directory that somebody may still be finishing with: the copy is of one moment. Gives how
 * much was traced by then.
 */
export async function copyQuietDirectory(
  from: string,
  to: string,
  traced: () => number,
): Promise<number> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const before = `${traced()}\n${listing(from)}`;
    rmSync(to, { recursive: true, force: true });
    if (tryCopy(from, to) && before === `${traced()}\n${listing(from)}`) return traced();
    await delay(2);
  }
  throw new Error(`faults: ${from}: does not come to rest`);
}

function tryCopy(from: string, to: string): boolean {
  try {
    cpSync(from, to, { recursive: true });
    return true;
  } catch {
    return false;
  }
}

function listing(directory: string): string {
  const lines: string[] = [];
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const found = statSync(join(directory, name), { throwIfNoEntry: false });
    lines.push(`${name} ${found?.size} ${found?.mtimeMs}`);
  }
  return lines.join('\n');
}
