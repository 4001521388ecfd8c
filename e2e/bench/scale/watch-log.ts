import type { ServerResponse } from 'node:http';

/** The last changes of one collection, and who watches it. */
export interface WatchLog {
  /** A change, as a line without its end. */
  add(version: number, line: string): void;
  bookmark(line: string): void;
  /** Sends everything after `version` and whatever comes; 410 when that is forgotten. */
  follow(response: ServerResponse, version: number): void;
}

const STORED = 20_000;

export function createWatchLog(): WatchLog {
  const changes: { readonly version: number; readonly line: string }[] = [];
  const watches = new Set<ServerResponse>();
  let forgotten = 0;

  const report = (line: string): void => {
    for (const watch of watches) watch.write(`${line}\n`);
  };

  return {
    add: (version, line) => {
      changes.push({ version, line });
      if (changes.length > 2 * STORED) {
        forgotten = changes.splice(0, STORED).at(-1)?.version ?? forgotten;
      }
      report(line);
    },
    bookmark: report,
    follow: (response, version) => {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.flushHeaders();
      if (version < forgotten) {
        response.end(
          '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}\n',
        );
        return;
      }
      for (const change of changes)
        if (change.version > version) response.write(`${change.line}\n`);
      watches.add(response);
      response.once('close', () => watches.delete(response));
    },
  };
}
