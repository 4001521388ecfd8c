import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { FakeRequest, RequestJournal } from './fake-server.ts';

/** Opens a journal in a file: one JSON line for each request, without credentials. */
export function openRequestJournal(file: string): RequestJournal {
  return {
    replay: () => {
      if (!existsSync(file)) return [];
      const text = readFileSync(file, 'utf8');
      const complete = text.slice(0, text.lastIndexOf('\n') + 1);
      // A line that a kill cut off belongs to a request without an answer.
      if (complete.length < text.length) writeFileSync(file, complete);
      return complete.split('\n').slice(0, -1).map(parseLine);
    },
    append: ({ method, path, query, body, at }) => {
      const line = JSON.stringify({ method, path, query: query.toString(), body, at });
      appendFileSync(file, `${line}\n`);
    },
  };
}

function parseLine(line: string): FakeRequest {
  const { method, path, query, body, at } = JSON.parse(line) as Record<string, string> & {
    at: number;
  };
  return {
    method: method ?? '',
    path: path ?? '',
    query: new URLSearchParams(query),
    headers: {},
    body: body ?? '',
    at,
  };
}
