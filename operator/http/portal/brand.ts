import { contrast } from '../../model/contrast.ts';
import type { PortalSettings } from '../../settings/settings.ts';
import { type Asset, assetOf } from '../dashboard/dashboard.ts';

/**
 * The name, the colours and the logo of the portal page. None of it is secret: the page loads it
 * before it has a token.
 */
export interface Brand {
  /** `{"name", "logo"}` as JSON: the name, and whether there is a logo. */
  readonly about: Asset;
  /** The colours as a style sheet, because the page allows styles from files only. */
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

/** CSS variables of the accent colours; portal.css has a default for each. */
function styleOf({ light, dark }: NonNullable<PortalSettings['colors']>): string {
  const rules = [
    ...(light === undefined
      ? []
      : [`--light-accent: ${light}; --on-light-accent: ${textOn(light)};`]),
    ...(dark === undefined ? [] : [`--dark-accent: ${dark}; --on-dark-accent: ${textOn(dark)};`]),
  ];
  return rules.length === 0 ? '' : `:root { ${rules.join(' ')} }\n`;
}

/**
 * The text colour for a background: white or near-black, whichever has more contrast. One of them
 * always has at least 4.5 to 1.
 */
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
