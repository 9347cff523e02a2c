// schema.js checks values against a JSON Schema (drafts 7 and 2020-12, without
// remote references and formats). Like Ajv, whose errors validate() reports, it
// stops at the first that is wrong.

() => {
  'use strict';

  const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);
  const pointer = text => String(text).replace(/~/g, '~0').replace(/\//g, '~1');
  const many = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

  function typeIs(type, value) {
    switch (type) {
      case 'object': return isObject(value);
      case 'array': return Array.isArray(value);
      case 'integer': return Number.isInteger(value);
      case 'number': return typeof value === 'number' && Number.isFinite(value);
      case 'null': return value === null;
      default: return typeof value === type;
    }
  }

  function equal(a, b) {
    if (a === b) return true;
    if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]));
    if (!isObject(a) || !isObject(b)) return false;
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every(key => Object.hasOwn(b, key) && equal(a[key], b[key]));
  }

  // limits are the keywords that compare a size with a number.
  const limits = [
    ['maximum', 'number', v => v, (v, n) => v <= n, n => `must be <= ${n}`, '<='],
    ['minimum', 'number', v => v, (v, n) => v >= n, n => `must be >= ${n}`, '>='],
    ['exclusiveMaximum', 'number', v => v, (v, n) => v < n, n => `must be < ${n}`, '<'],
    ['exclusiveMinimum', 'number', v => v, (v, n) => v > n, n => `must be > ${n}`, '>'],
    ['maxLength', 'string', v => [...v].length, (v, n) => v <= n, n => `must NOT have more than ${many(n, 'character')}`],
    ['minLength', 'string', v => [...v].length, (v, n) => v >= n, n => `must NOT have fewer than ${many(n, 'character')}`],
    ['maxItems', 'array', v => v.length, (v, n) => v <= n, n => `must NOT have more than ${many(n, 'item')}`],
    ['minItems', 'array', v => v.length, (v, n) => v >= n, n => `must NOT have fewer than ${many(n, 'item')}`],
    ['maxProperties', 'object', v => Object.keys(v).length, (v, n) => v <= n, n => `must NOT have more than ${n === 1 ? '1 property' : n + ' properties'}`],
    ['minProperties', 'object', v => Object.keys(v).length, (v, n) => v >= n, n => `must NOT have fewer than ${n === 1 ? '1 property' : n + ' properties'}`],
  ];

  // check returns the errors of a value, of which there is more than one only
  // where a choice failed.
  function check(root, value) {
    const resolve = ref => {
      if (ref === '#') return root;
      if (!ref.startsWith('#/')) throw new Error(`can't resolve reference ${ref}`);
      let found = root;
      for (const part of ref.slice(2).split('/')) found = found?.[decodeURIComponent(part).replace(/~1/g, '/').replace(/~0/g, '~')];
      if (found === undefined) throw new Error(`can't resolve reference ${ref}`);
      return found;
    };

    const test = (schema, value, path, at) => {
      const wrong = (keyword, params, message) => [{ instancePath: path, schemaPath: `${at}/${keyword}`, keyword, params, message }];
      if (schema === true) return [];
      if (schema === false) return [{ instancePath: path, schemaPath: `${at}/false schema`, keyword: 'false schema', params: {}, message: 'boolean schema is false' }];
      if (!isObject(schema)) throw new Error('schema must be object or boolean');
      if (typeof schema.$ref === 'string') return test(resolve(schema.$ref), value, path, schema.$ref);

      if (schema.type !== undefined) {
        const types = [].concat(schema.type);
        if (!types.some(type => typeIs(type, value))) return wrong('type', { type: schema.type }, `must be ${types.join(',')}`);
      }
      for (const [keyword, type, size, holds, message, comparison] of limits) {
        const limit = schema[keyword];
        if (typeof limit !== 'number' || !typeIs(type, value) || holds(size(value), limit)) continue;
        return wrong(keyword, comparison ? { comparison, limit } : { limit }, message(limit));
      }
      if (typeof value === 'number' && schema.multipleOf !== undefined && !Number.isInteger(value / schema.multipleOf)) {
        return wrong('multipleOf', { multipleOf: schema.multipleOf }, `must be multiple of ${schema.multipleOf}`);
      }
      if (typeof value === 'string' && schema.pattern !== undefined && !new RegExp(schema.pattern, 'u').test(value)) {
        return wrong('pattern', { pattern: schema.pattern }, `must match pattern "${schema.pattern}"`);
      }
      if (schema.const !== undefined && !equal(schema.const, value)) {
        return wrong('const', { allowedValue: schema.const }, 'must be equal to constant');
      }
      if (schema.enum !== undefined && !schema.enum.some(item => equal(item, value))) {
        return wrong('enum', { allowedValues: schema.enum }, 'must be equal to one of the allowed values');
      }
      for (const part of [choices, items, properties]) {
        const errors = part(schema, value, path, at, wrong);
        if (errors.length > 0) return errors;
      }
      return [];
    };

    const choices = (schema, value, path, at, wrong) => {
      const passes = part => test(part, value, path, at).length === 0;
      if (schema.not !== undefined && passes(schema.not)) return wrong('not', {}, 'must NOT be valid');
      for (const keyword of ['anyOf', 'oneOf']) {
        if (schema[keyword] === undefined) continue;
        const results = schema[keyword].map((part, i) => test(part, value, path, `${at}/${keyword}/${i}`));
        const passing = results.flatMap((errors, i) => (errors.length === 0 ? [i] : []));
        if (keyword === 'anyOf' && passing.length === 0) return [...results.flat(), ...wrong('anyOf', {}, 'must match a schema in anyOf')];
        if (keyword === 'oneOf' && passing.length !== 1) {
          const passingSchemas = passing.length > 1 ? passing.slice(0, 2) : null;
          return [...(passingSchemas ? [] : results.flat()), ...wrong('oneOf', { passingSchemas }, 'must match exactly one schema in oneOf')];
        }
      }
      for (const [i, part] of (schema.allOf ?? []).entries()) {
        const errors = test(part, value, path, `${at}/allOf/${i}`);
        if (errors.length > 0) return errors;
      }
      if (schema.if !== undefined) {
        const branch = passes(schema.if) ? 'then' : 'else';
        if (schema[branch] !== undefined) {
          const errors = test(schema[branch], value, path, `${at}/${branch}`);
          if (errors.length > 0) return [...errors, ...wrong('if', { failingKeyword: branch }, `must match "${branch}" schema`)];
        }
      }
      return [];
    };

    const items = (schema, value, path, at, wrong) => {
      if (!Array.isArray(value)) return [];
      if (schema.uniqueItems) {
        for (let i = 1; i < value.length; i++) {
          for (let j = 0; j < i; j++) {
            if (equal(value[i], value[j])) return wrong('uniqueItems', { i, j }, `must NOT have duplicate items (items ## ${j} and ${i} are identical)`);
          }
        }
      }
      const tuple = Array.isArray(schema.items) ? schema.items : (schema.prefixItems ?? []);
      const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
      for (const [i, item] of value.entries()) {
        const part = i < tuple.length ? tuple[i] : rest;
        if (part === undefined) continue;
        const errors = test(part, item, `${path}/${i}`, i < tuple.length ? `${at}/items/${i}` : `${at}/items`);
        if (errors.length > 0) return errors;
      }
      if (schema.contains !== undefined && !value.some(item => test(schema.contains, item, path, at).length === 0)) {
        return wrong('contains', { minContains: 1 }, 'must contain at least 1 valid item(s)');
      }
      return [];
    };

    const properties = (schema, value, path, at, wrong) => {
      if (!isObject(value)) return [];
      for (const key of schema.required ?? []) {
        if (!Object.hasOwn(value, key)) return wrong('required', { missingProperty: key }, `must have required property '${key}'`);
      }
      for (const [key, part] of Object.entries(schema.properties ?? {})) {
        if (!Object.hasOwn(value, key)) continue;
        const errors = test(part, value[key], `${path}/${pointer(key)}`, `${at}/properties/${pointer(key)}`);
        if (errors.length > 0) return errors;
      }
      for (const key of Object.keys(value)) {
        if (schema.propertyNames !== undefined && test(schema.propertyNames, key, path, at).length > 0) {
          return wrong('propertyNames', { propertyName: key }, 'property name must be valid');
        }
        let known = Object.hasOwn(schema.properties ?? {}, key);
        for (const [pattern, part] of Object.entries(schema.patternProperties ?? {})) {
          if (!new RegExp(pattern, 'u').test(key)) continue;
          known = true;
          const errors = test(part, value[key], `${path}/${pointer(key)}`, `${at}/patternProperties/${pointer(pattern)}`);
          if (errors.length > 0) return errors;
        }
        if (known || schema.additionalProperties === undefined) continue;
        if (schema.additionalProperties === false) {
          return wrong('additionalProperties', { additionalProperty: key }, 'must NOT have additional properties');
        }
        const errors = test(schema.additionalProperties, value[key], `${path}/${pointer(key)}`, `${at}/additionalProperties`);
        if (errors.length > 0) return errors;
      }
      return [];
    };

    return test(root, value, '', '#');
  }

  return { check };
};
