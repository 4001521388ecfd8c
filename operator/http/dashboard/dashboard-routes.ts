import type { Response } from 'express';
import { Problem } from '../problem.ts';
import { readQuery } from '../query.ts';
import type { Route } from '../route.ts';
import type { Asset } from './assets.ts';

/**
 * The dashboard's files. They hold no data and need no token: the pages ask the API like any other
 * client, with the token that their reader gives them.
 */
export function dashboardRoutes(assets: ReadonlyMap<string, Asset>): readonly Route[] {
  return ['/dashboard/{file}', '/dashboard/{folder}/{file}'].map((path) => ({
    method: 'get',
    path,
    access: 'open',
    summary: 'a file of the dashboard',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        const { folder, file } = request.params;
        const asset = assets.get([folder, file].filter(Boolean).join('/'));
        if (asset === undefined) throw new Problem(404, 'no such file of the dashboard: open /');
        sendAsset(response, asset);
      },
    ],
  }));
}

/** Browsers ask each time, and are mostly told that nothing has changed. */
export function sendAsset(response: Response, { body, contentType, etag }: Asset): void {
  response.set({ 'Content-Type': contentType, ETag: etag, 'Cache-Control': 'no-cache' });
  if (response.req.headers['if-none-match'] === etag) response.status(304).end();
  else response.end(body);
}
