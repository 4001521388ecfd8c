import type { RequestHandler, Response } from 'express';
import type { PortalSettings } from '../../settings/settings.ts';
import { type Asset, dashboardRoutes, sendAsset } from '../dashboard/dashboard.ts';
import { readQuery } from '../query.ts';
import { Problem } from '../problem.ts';
import type { Route, RouteContext } from '../route.ts';
import { noPortal } from '../routes/portal-tokens.ts';
import { type Brand, brandOf } from './brand.ts';

/** The policy of all pages of the operator (`create-app.ts`), without `frame-ancestors`. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
];
/** Nothing in a logo runs or loads, even when somebody opens it as a page. */
const LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/**
 * The routes of `/portal`, the page with a tenant's own usage, and of its files. They have no data
 * and need no token: the page sends its token to the API. All of them are 404 while there is no
 * key.
 */
export function portalPageRoutes(
  context: RouteContext,
  assets: ReadonlyMap<string, Asset>,
): readonly Route[] {
  const page = assets.get('portal/index.html');
  const icon = assets.get('icon.svg');
  if (page === undefined || icon === undefined) {
    throw new Error('the portal is incomplete: index.html or icon.svg: not found');
  }
  const brand = latest(brandOf);
  const portal = (): PortalSettings => context.views.settings().portal;
  const files = dashboardRoutes(assets, '/portal/files').map((route) => ({
    ...route,
    handlers: [onlyWhileOn(context), ...route.handlers],
  }));
  const file = (path: string, summary: string, send: (response: Response) => void): Route => ({
    method: 'get',
    path: `/portal${path}`,
    access: 'open',
    summary,
    handlers: [
      onlyWhileOn(context),
      (request, response) => {
        // Refuses a token in the query, where every log on the way would have it.
        readQuery(request, []);
        send(response);
      },
    ],
  });
  return [
    file('', 'the page on which a tenant sees its own usage', (response) => {
      embeddable(response, portal().frameAncestors);
      sendAsset(response, page);
    }),
    file('/brand.json', 'the name of the page', (response) =>
      sendAsset(response, brand(portal()).about),
    ),
    file('/brand.css', 'the colours of the page', (response) =>
      sendAsset(response, brand(portal()).style),
    ),
    file('/logo', 'the logo of the page', (response) => {
      const { logo } = brand(portal());
      if (logo === undefined) throw new Problem(404, 'no logo: spec.portal.logo: none is set');
      response.set('Content-Security-Policy', LOGO_POLICY);
      sendAsset(response, logo);
    }),
    file('/icon', 'the icon of its tab', (response) => {
      response.set('Content-Security-Policy', LOGO_POLICY);
      sendAsset(response, brand(portal()).logo ?? icon);
    }),
    ...files,
  ];
}

function onlyWhileOn({ portal }: RouteContext): RequestHandler {
  return (_request, _response, next) => {
    if (!portal.isOn()) throw noPortal();
    next();
  };
}

function embeddable(response: Response, frameAncestors: readonly string[]): void {
  const ancestors = frameAncestors.length === 0 ? "'none'" : frameAncestors.join(' ');
  response.set('Content-Security-Policy', [...POLICY, `frame-ancestors ${ancestors}`].join('; '));
  if (frameAncestors.length === 0) return;
  // X-Frame-Options knows no lists and would block allowed pages. The other header lets pages that
  // ask for isolation embed this one.
  response.removeHeader('X-Frame-Options');
  response.set('Cross-Origin-Resource-Policy', 'cross-origin');
}

function latest(make: (settings: PortalSettings) => Brand): (settings: PortalSettings) => Brand {
  let made: { readonly of: PortalSettings; readonly brand: Brand } | undefined;
  return (of) => {
    if (made?.of !== of) made = { of, brand: make(of) };
    return made.brand;
  };
}
