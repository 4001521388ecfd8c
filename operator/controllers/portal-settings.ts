import type { MeteringPolicySpec } from '../config/custom-resources.generated.ts';
import { accentColour } from '../config/parsers/colours.ts';
import type { PortalSettings } from '../config/settings.ts';
import { invalidField, type Translation } from '../config/spec-fields.ts';
import { omitUndefined } from '../model/omit-undefined.ts';

const COLOURS = { light: accentColour('light'), dark: accentColour('dark') } as const;

/** How the tenants' portal looks by the MeteringPolicy (docs/portal.md#how-it-looks). */
export function translatePortal(
  spec: NonNullable<MeteringPolicySpec['portal']>,
): Translation<PortalSettings> {
  for (const ground of ['light', 'dark'] as const) {
    const text = spec.colors?.[ground];
    if (text === undefined) continue;
    const parsed = COLOURS[ground].parse(text);
    if (parsed.kind === 'problem')
      return invalidField(`spec.portal.colors.${ground}`, parsed, text);
  }
  const { name, logo, colors, frameAncestors = [] } = spec;
  const { light, dark } = colors ?? {};
  return {
    kind: 'settings',
    settings: {
      frameAncestors,
      ...omitUndefined({ name, logo }),
      ...(colors !== undefined && { colors: omitUndefined({ light, dark }) }),
    },
  };
}
