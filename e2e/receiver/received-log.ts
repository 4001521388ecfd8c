import { appendFileSync, readFileSync, truncateSync } from 'node:fs';
import type { CloudEvent } from './batch.ts';

/**
 * Every usage event once, one JSON line each. Delivery is at least once and consumers deduplicate on
 * the id (docs/how-to/destinations/webhook.md#what-is-sent), as this one does; what came again is counted, and what came again with other
 * content is an error of the sender.
 */
export interface ReceivedLog {
  accept(event: CloudEvent): 'new' | 'duplicate' | 'conflict';
}

export function openReceivedLog(file: string): ReceivedLog {
  const known = load(file);
  return {
    accept: (event) => {
      const line = JSON.stringify(event.data);
      const before = known.get(event.id);
      if (before !== undefined) return before === line ? 'duplicate' : 'conflict';
      appendFileSync(file, `${line}\n`);
      known.set(event.id, line);
      return 'new';
    },
  };
}

/** The lines of an earlier run by event id; a last line cut short by a kill is removed. */
function load(file: string): Map<string, string> {
  const known = new Map<string, string>();
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return known;
    throw error;
  }
  const complete = text.slice(0, text.lastIndexOf('\n') + 1);
  if (complete.length < text.length) truncateSync(file, Buffer.byteLength(complete));
  for (const line of complete.split('\n')) {
    if (line !== '') known.set((JSON.parse(line) as { readonly id: string }).id, line);
  }
  return known;
}
