import { contrast } from '../../model/contrast.ts';
import type { PortalSettings } from '../../settings/settings.ts';
import { type Asset, assetOf } from '../dashboard/dashboard.ts';

/** What a page of the provider's looks like. Nothing of it is secret: pages need it before they have a token. */
export interface Brand {
  /** `{"name", "logo"}`: what it is called, and where its picture is. */
  readonly about: Asset;
  /** The colours, as a style sheet: the page allows no other styles than files. */
  readonly style: Asset;
  readonly logo?: Asset;
}

const DATA_URI = /^data:(image\/(?:svg\+xml|png));base64,/;
const ON_ACCENT = ['#ffffff', '#10151c'] as const;

export function brandOf({ name, logo, colors }: PortalSettings): Brand {
  const picture = logo === undefined ? undefined : logoOf(logo);
  const about = { name, logo: picture !== undefined };
  return {
    about: assetOf(Buffer.from(JSON.stringify(about)), 'application/json; charset=utf-8'),
    style: assetOf(Buffer.from(styleOf(colors ?? {})), 'text/css; charset=utf-8'),
    logo: picture,
  };
}

/** A colour stands for both grounds' own where the other is not given. */
function styleOf({ light, dark }: NonNullable<PortalSettings['colors']>): string {
  const rules = [
    ...(light === undefined
      ? []
      : [`--light-accent: ${light}; --on-light-accent: ${textOn(light)};`]),
    ...(dark === undefined ? [] : [`--dark-accent: ${dark}; --on-dark-accent: ${textOn(dark)};`]),
  ];
  return rules.length === 0 ? '' : `:root { ${rules.join(' ')} }\n`;
}

/** What can be read on a colour: one of the two always has a contrast of 4.5 to 1. */
function textOn(colour: string): string {
  const [white, black] = ON_ACCENT;
  return contrast(colour, white) >= contrast(colour, black) ? white : black;
}

function logoOf(uri: string): Asset | undefined {
  const [head = '', contentType] = DATA_URI.exec(uri) ?? [];
  return contentType === undefined
    ? undefined
    : assetOf(Buffer.from(uri.slice(head.length), 'base64'), contentType);
}
