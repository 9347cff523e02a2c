import { each as forEach } from '@openfn/language-http';
const get = 1;
forEach('$.data[*]', fn(state => state));
collections.get('my-collection', { key: state => post(state.id) });
const { each } = { each: get };
